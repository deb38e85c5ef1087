"""Moves of replicas between the log directories of simulated brokers."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log_management.directories import LogDirectory
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.errors import ErrorCode
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.wire import Message
from tests.support.broker.simulated_brokers import SimulatedBrokers

FIRST, SECOND = "/first", "/second"
TOPIC = "events"
RECORDS = 10


def cluster_of(*broker_ids: int, seed: int = 0, **configs: str) -> SimulatedBrokers:
    """Start brokers with two log directories, and a topic with one partition on all of them and some records."""
    cluster = SimulatedBrokers(
        broker_ids, seed, log_directories=(FIRST, SECOND), replica_lag_time_max_ms=2_000.0
    )
    cluster.start()
    cluster.create_topic(TOPIC, broker_ids, **configs)
    for number in range(RECORDS):
        assert cluster.produce_and_wait(TOPIC, b"record %d" % number).error is ErrorCode.NONE
    cluster.run_for(1_000.0)
    return cluster


def hosted(cluster: SimulatedBrokers, broker_id: int = 1) -> HostedPartition:
    found = cluster.hosted(broker_id, TOPIC)
    assert found is not None
    return found


def other(cluster: SimulatedBrokers, broker_id: int = 1) -> str:
    return SECOND if hosted(cluster, broker_id).directory.path == FIRST else FIRST


def directory_of(cluster: SimulatedBrokers, path: str) -> LogDirectory:
    found = cluster.brokers[1].broker.directories.find(path)
    assert found is not None
    return found


def alter(cluster: SimulatedBrokers, path: str, broker_id: int = 1, topic: str = TOPIC) -> ErrorCode:
    """Request a move; return the error if it is refused, NONE otherwise."""
    errors: list[ErrorCode] = []
    cluster.brokers[broker_id].broker.moves.alter(topic, 0, path, errors.append)
    return errors[0] if errors else ErrorCode.NONE


def records(cluster: SimulatedBrokers, broker_id: int = 1) -> bytes:
    log = hosted(cluster, broker_id).log
    return b"".join(
        log.read(max(each.base_offset, log.start_offset), 1 << 30, log.end_offset) for each in log.segments()
    )


def partition_directories(cluster: SimulatedBrokers, path: str, broker_id: int = 1) -> list[str]:
    """Return the partition directories of the topic in a log directory, each by the end of its name."""
    names = cluster.brokers[broker_id].disk.list_directory(path)
    return sorted(name.rpartition("-")[2] for name in names if name.startswith(TOPIC))


def is_in(cluster: SimulatedBrokers, path: str, broker_id: int = 1) -> Callable[[], bool]:
    """Return a condition: the replica is in the directory, and the controller has recorded that."""

    def check() -> bool:
        found, partition = cluster.hosted(broker_id, TOPIC), cluster.partition(TOPIC)
        assigned = partition.directories[partition.replicas.index(broker_id)]
        return found is not None and found.directory.path == path and assigned == found.directory.id

    return check


def is_report(request: Message) -> bool:
    return request.API_KEY == ApiKey.ASSIGN_REPLICAS_TO_DIRS


def hold_reports(cluster: SimulatedBrokers) -> None:
    cluster.abandons_request = is_report


def release_reports(cluster: SimulatedBrokers) -> None:
    cluster.abandons_request = lambda request: False


def accepted_but_not_replaced(cluster: SimulatedBrokers, path: str) -> None:
    """Begin a move, and stop once the controller has recorded the new directory."""
    cluster.holds_response = is_report
    alter(cluster, path)
    id = cluster.brokers[1].broker.directories.find(path)
    assert id is not None
    cluster.run_until(lambda: cluster.partition(TOPIC).directories[0] == id.id)
    cluster.holds_response = lambda request: False


def future_log(cluster: SimulatedBrokers) -> PartitionLog:
    """Return the open future log of the replica on broker 1."""
    future = hosted(cluster).future
    assert future is not None
    assert future.log is not None
    return future.log


def deliver_responses(cluster: SimulatedBrokers) -> None:
    """Deliver the responses that the cluster has held."""
    for deliver in cluster.held:
        deliver()


def restart(cluster: SimulatedBrokers, change: Callable[[], None] = lambda: None) -> None:
    """Kill broker 1, make a change to its disk, and start it again."""
    broker = cluster.brokers[1]
    broker.kill()
    change()
    broker.start()
    cluster.run_until(lambda: broker.is_unfenced)
