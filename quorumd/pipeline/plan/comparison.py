"""Compares a state with a plan: each partition is as planned, as before, or neither."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quorumd.pipeline.plan.arrays import Ints
from quorumd.pipeline.plan.state import ClusterState
from quorumd.pipeline.tables.schemas import Row

AS_PLANNED, AS_BEFORE, OTHERWISE, MISSING = range(4)
NAMES = ("as_planned", "as_before", "otherwise", "missing")


@dataclass(frozen=True, slots=True)
class Comparison:
    """`verdicts` are indexes of NAMES, one per row of `moves`; `now` are the current replicas."""

    moves: pa.Table
    verdicts: npt.NDArray[np.int8]
    now: list[list[int] | None]

    @property
    def is_done(self) -> bool:
        return not self.verdicts.any()

    def differences(self) -> pa.Table:
        """Return the partitions that are not as planned: wave, topic, partition, verdict, current and planned
        replicas."""
        rows = np.flatnonzero(self.verdicts)
        chosen = self.moves.take(pa.array(rows))
        return pa.table(
            {
                "wave": chosen["wave"],
                "topic": chosen["topic"],
                "partition": chosen["partition"],
                "verdict": pa.array([NAMES[self.verdicts[row]] for row in rows], pa.string()),
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
        verdicts[row] = (
            AS_PLANNED if replicas == new[row] else AS_BEFORE if replicas == old[row] else OTHERWISE
        )
    return Comparison(moves, verdicts, now)


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
        counts = np.bincount(found.verdicts[waves == wave], minlength=len(NAMES)).tolist()
        rows.append({"wave": wave, "partitions": sum(counts), **dict(zip(NAMES, counts, strict=True))})
    return rows
