"""The client that reads the cluster through all nodes."""

from __future__ import annotations

from random import Random

from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.committed_state import CommittedState
from quorumd.simulator.checkers.logs import CommittedDataIsImmutable
from quorumd.simulator.checkers.read_scope import EVERYTHING, Scope
from quorumd.simulator.checkers.reads import Process, ReadsAreCommitted
from quorumd.simulator.workload.cluster_reader import ClusterReader
from tests.support.simulator.simulated_cluster import elect, make_cluster, run


class RecordingChecker(ReadsAreCommitted):
    """Keeps responses instead of checking them."""

    def __init__(self) -> None:
        super().__init__(CommittedState(CommittedDataIsImmutable()))
        self.responses: list[tuple[str, Process | None]] = []

    def responded(
        self, message: Message, process: Process | None, requested_at: int, scope: Scope = EVERYTHING
    ) -> None:
        self.responses.append((type(message).__name__, process))


def test_every_read_api_of_every_node_is_read_until_the_end() -> None:
    cluster, checker = make_cluster(3), RecordingChecker()
    elect(cluster)
    reader = ClusterReader(cluster, Random(1), 5.0, checker)
    reader.start()
    run(cluster, 3000.0)
    assert {name for name, _ in checker.responses} == {
        "ApiVersionsResponse",
        "DescribeClusterResponse",
        "DescribeQuorumResponse",
        "DescribeTopicPartitionsResponse",
        "ListPartitionReassignmentsResponse",
        "MetadataResponse",
    }
    assert {process for _, process in checker.responses} == {(1, 1), (2, 1), (3, 1)}
    reader.running = False
    run(cluster, 1000.0)
    count = len(checker.responses)
    run(cluster, 1000.0)
    assert len(checker.responses) == count


def test_response_of_an_unknown_incarnation_is_not_attributed() -> None:
    cluster, checker = make_cluster(1), RecordingChecker()
    elect(cluster)
    reader = ClusterReader(cluster, Random(1), 5.0, checker)
    reader.start()
    run(cluster, 100.0, lambda: bool(checker.responses))
    cluster.machines[1].incarnation += 1
    reader.begin()
    checker.responses.clear()
    cluster.machines[1].incarnation += 1
    run(cluster, 500.0, lambda: bool(checker.responses))
    assert checker.responses[0][1] is None
