"""The progress of plans on the log of a stock cluster, which has a reassignment and replicas that are not in sync.

The log is that of node 1 in kafka_4.3.1_history.zip; see tests/unit/pipeline/audit/test_stock_log.py.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from quorumd.pipeline.plan.comparison import VERDICTS, compared, replicas_on
from quorumd.pipeline.plan.loading import state_of_logs
from quorumd.pipeline.plan.state import ClusterState
from quorumd.pipeline.tables.schemas import PLAN_MOVES

ARCHIVE = Path(__file__).parents[3] / "support" / "data" / "kafka_4.3.1_history.zip"
MOVING, IN_SYNC, OUT_OF_SYNC = ("topic-10", 0), ("topic-1", 0), ("topic-1", 1)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> ClusterState:
    directory = tmp_path_factory.mktemp("stock")
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(directory)
    return state_of_logs({1: str(directory / "1")})


def replicas_of(state: ClusterState, where: tuple[str, int]) -> list[int]:
    """Return the replicas of a partition after its reassignment, if there is one."""
    for row in range(len(state)):
        if (state.names[state.topics[row]], state.partitions[row]) == where:
            return [broker for broker in state.replicas[row].tolist() if broker >= 0]
    raise KeyError(where)


def verdict(state: ClusterState, where: tuple[str, int], old: list[int], new: list[int]) -> str:
    topic, partition = where
    move = {"wave": 1, "topic": topic, "partition": partition, "old": old, "new": new, "leader_old": old[0],
            "leader_new": new[0], "reason": "a test"}  # fmt: skip
    found = compared(pa.Table.from_pylist([move], PLAN_MOVES.arrow()), state)
    assert found.is_done == (found.verdicts.tolist() == [VERDICTS.index("done")])
    return VERDICTS[found.verdicts[0]]


def test_reassignment_of_stock_cluster_is_in_progress(state: ClusterState) -> None:
    assert verdict(state, MOVING, [3, 1, 2], [3, 1]) == "in_progress"
    assert verdict(state, MOVING, [3, 1, 2], [1, 2]) == "superseded"


def test_planned_replicas_are_done_once_they_are_in_sync(state: ClusterState) -> None:
    for where, expected in ((IN_SYNC, "done"), (OUT_OF_SYNC, "in_progress")):
        assert verdict(state, where, [9], replicas_of(state, where)) == expected


def test_move_that_was_not_requested_is_not_begun(state: ClusterState) -> None:
    assert verdict(state, IN_SYNC, replicas_of(state, IN_SYNC), [9]) == "not_begun"
    assert verdict(state, ("no-such-topic", 0), [1], [2]) == "missing"


def test_replica_that_is_being_removed_keeps_its_broker_from_being_wiped(state: ClusterState) -> None:
    (kept,) = [row for row in replicas_on(2, state) if (row["topic"], row["partition"]) == MOVING]
    assert kept == {"topic": "topic-10", "partition": 0, "replicas": [3, 1, 2], "settled": False}
    assert replicas_on(9, state) == []
