"""The state that a plan starts from: partitions with their replicas, and brokers with their racks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quorumd.pipeline.plan.arrays import NONE, Ints, Rows


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A broker of the state."""

    id: int
    rack: str | None = None
    """None if the broker has no rack."""
    fenced: bool = False
    registered: bool = True
    """False for a broker that appears only in replicas."""
    cordoned: bool = False
    """All of its log directories are cordoned, so no reassignment may name it (KIP-1066)."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Partitions by topic and number. Shapes: (P,); `replicas` and `assigned` are (P, widest row), padded with
    NONE.

    A partition under reassignment has its target as `replicas`; `assigned` also has the replicas that are to be
    removed. A partition is `settled` if it is not being reassigned and all of its replicas are in sync.
    """

    names: tuple[str, ...]
    topics: Ints
    partitions: Ints
    replicas: Rows
    leaders: Ints
    brokers: Mapping[int, BrokerState]
    assigned: Rows
    settled: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        topics: Sequence[str],
        partitions: Sequence[int] | Ints,
        replicas: Rows,
        leaders: Sequence[int] | Ints,
        brokers: Iterable[BrokerState],
        assigned: Rows | None = None,
        settled: Sequence[bool] | npt.NDArray[np.bool_] | None = None,
    ) -> ClusterState:
        """Build a state from columns in any order; `topics` has a name per partition.

        Without `assigned` and `settled` no partition is being reassigned or out of sync.
        """
        names, index = np.unique(np.asarray(topics, dtype=object).astype(str), return_inverse=True)
        texts = [str(name) for name in names]
        return cls.of_indexed(texts, index, partitions, replicas, leaders, brokers, assigned, settled)

    @classmethod
    def of_indexed(
        cls,
        names: Sequence[str],
        topics: Ints,
        partitions: Sequence[int] | Ints,
        replicas: Rows,
        leaders: Sequence[int] | Ints,
        brokers: Iterable[BrokerState],
        assigned: Rows | None = None,
        settled: Sequence[bool] | npt.NDArray[np.bool_] | None = None,
    ) -> ClusterState:
        """Build a state as `of` does; `topics` has an index of `names` per partition. The names are distinct, in any
        order."""
        assigned = replicas if assigned is None else assigned
        is_settled = np.ones(len(replicas), bool) if settled is None else np.asarray(settled, bool)
        by_name = sorted(range(len(names)), key=names.__getitem__)
        rank = np.empty(len(names), np.int64)
        rank[by_name] = np.arange(len(names))
        index = rank[topics]
        numbers = np.asarray(partitions, np.int64)
        # A single key: a stable sort takes linear time if the key is already sorted, as in a history.
        order = np.argsort(index * (1 + numbers.max(initial=0)) + numbers, kind="stable")
        known = {broker.id: broker for broker in brokers}
        for broker in np.unique(replicas[replicas >= 0]):
            known.setdefault(int(broker), BrokerState(int(broker), registered=False))
        return cls(
            tuple(names[each] for each in by_name),
            index[order],
            numbers[order],
            np.ascontiguousarray(replicas[order], np.int32),
            np.asarray(leaders, np.int64)[order],
            dict(sorted(known.items())),
            np.ascontiguousarray(assigned[order], np.int32),
            is_settled[order],
        )

    def __len__(self) -> int:
        return len(self.partitions)


def padded_rows(lists: Sequence[Sequence[int]]) -> Rows:
    """Return lists of ids as padded rows."""
    lengths = np.array([len(ids) for ids in lists], np.int64)
    flat = np.array([broker for ids in lists for broker in ids], np.int32)
    return rows_of(flat, np.r_[0, np.cumsum(lengths)])


def rows_of(flat: Rows, offsets: Ints) -> Rows:
    """Return concatenated lists as padded rows: list i is flat[offsets[i]:offsets[i + 1]]."""
    lengths = np.diff(offsets)
    rows = np.full((len(lengths), int(lengths.max(initial=0))), NONE, np.int32)
    row = np.repeat(np.arange(len(lengths)), lengths)
    rows[row, np.arange(offsets[0], offsets[-1]) - np.repeat(offsets[:-1], lengths)] = flat[
        offsets[0] : offsets[-1]
    ]
    return rows
