"""Compares a state with a plan: the progress of each partition, and the replicas that are still on a broker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quorumd.pipeline.plan.arrays import Ints, any_in_row
from quorumd.pipeline.plan.state import ClusterState
from quorumd.pipeline.tables.schemas import Row

DONE, IN_PROGRESS, NOT_BEGUN, SUPERSEDED, MISSING = range(5)
VERDICTS = ("done", "in_progress", "not_begun", "superseded", "missing")
"""Done: on the planned replicas, all of which are in sync; in progress: reassigned to them, or not all in sync yet;
not begun: on the replicas before the plan; superseded: on or moving to other replicas; missing: no such partition."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The progress of the moves of a plan."""

    moves: pa.Table
    verdicts: npt.NDArray[np.int8]
    """An index of VERDICTS per row of `moves`."""
    now: list[list[int] | None]
    """The current replicas per row, or the target of the reassignment in progress; None for a missing partition."""

    @property
    def is_done(self) -> bool:
        return not self.verdicts.any()

    def differences(self) -> pa.Table:
        """Return the partitions that are not done: wave, topic, partition, verdict, current and planned replicas."""
        rows = np.flatnonzero(self.verdicts)
        chosen = self.moves.take(pa.array(rows))
        return pa.table(
            {
                "wave": chosen["wave"],
                "topic": chosen["topic"],
                "partition": chosen["partition"],
                "verdict": pa.array([VERDICTS[self.verdicts[row]] for row in rows], pa.string()),
                "now": pa.array([self.now[row] for row in rows], pa.list_(pa.int32())),
                "planned": chosen["new"],
            }
        )


def compared(moves: pa.Table, state: ClusterState) -> Comparison:
    """Compare a state with moves (rows of schemas.PLAN_MOVES)."""
    at = _places(moves, state)
    verdicts = np.full(len(at), MISSING, np.int8)
    now: list[list[int] | None] = [None] * len(at)
    old, new = moves["old"].to_pylist(), moves["new"].to_pylist()
    for row, place in enumerate(at.tolist()):
        if place < 0:
            continue
        replicas = [broker for broker in state.replicas[place].tolist() if broker >= 0]
        now[row] = replicas
        if replicas == new[row]:
            verdicts[row] = DONE if state.settled[place] else IN_PROGRESS
        else:
            verdicts[row] = NOT_BEGUN if replicas == old[row] else SUPERSEDED
    return Comparison(moves, verdicts, now)


def replicas_on(broker: int, state: ClusterState) -> list[Row]:
    """Return the partitions with a replica on a broker: topic, partition, assigned replicas, and whether they are
    settled.

    A broker without any may be wiped: a removed replica is assigned until the replicas that stay are in sync.
    """
    rows = np.flatnonzero(any_in_row(state.assigned == broker))
    return [
        {
            "topic": state.names[state.topics[row]],
            "partition": int(state.partitions[row]),
            "replicas": [int(replica) for replica in state.assigned[row] if replica >= 0],
            "settled": bool(state.settled[row]),
        }
        for row in rows
    ]


def _places(moves: pa.Table, state: ClusterState) -> Ints:
    """Return the index in the state of each partition; -1 if it does not exist."""
    if not moves.num_rows or not len(state):
        return np.full(moves.num_rows, -1, np.int64)
    index = {name: number for number, name in enumerate(state.names)}
    topics = np.array([index.get(topic, -1) for topic in moves["topic"].to_pylist()], np.int64)
    numbers = moves["partition"].to_numpy().astype(np.int64)
    width = 1 + int(max(numbers.max(), state.partitions.max()))
    # The state is sorted by topic and partition.
    keys, wanted = state.topics * width + state.partitions, topics * width + numbers
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((topics >= 0) & (keys[at] == wanted), at, -1)


def of_waves(found: Comparison) -> list[Row]:
    """Count the verdicts of each wave."""
    waves = found.moves["wave"].to_numpy()
    rows = []
    for wave in np.unique(waves).tolist():
        counts = np.bincount(found.verdicts[waves == wave], minlength=len(VERDICTS)).tolist()
        rows.append({"wave": wave, "partitions": sum(counts), **dict(zip(VERDICTS, counts, strict=True))})
    return rows
