"""NoOpRecords of idle logs, in whole nodes."""

from __future__ import annotations

from itertools import pairwise

from quorumd.controller.controller import ControllerSettings
from quorumd.node.node import Node
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import values
from tests.support.node.nodes import NO_IDLE_RECORDS, Cluster

INTERVAL_MS = 500.0


def no_ops(node: Node) -> list[int]:
    """Append times of the NoOpRecords in a node's log."""
    data = node.log.read(0, 1 << 20, max_offset=node.log.end_offset)
    return [
        header.timestamp_ms
        for header in headers(data)
        if not header.is_control
        for value in values(data, header)
        if isinstance(decode_record(value), NoOpRecord)
    ]


def make_cluster(voters: int = 1) -> Cluster:
    cluster = Cluster(voters).start()
    cluster.leader()
    return cluster


def test_idle_log_grows_by_one_record_per_interval() -> None:
    cluster = make_cluster(3)
    cluster.run(20 * INTERVAL_MS)
    written = no_ops(cluster.leader())
    assert 19 <= len(written) <= 20
    assert all(INTERVAL_MS <= after - before <= INTERVAL_MS + 5 for before, after in pairwise(written))
    assert all(len(no_ops(node)) >= 19 for node in cluster.nodes.values())


def test_busy_log_gets_no_record() -> None:
    cluster = make_cluster()
    leader = cluster.leader()
    for number in range(50):
        leader.controller.writer.write_batch(
            [ConfigRecord(4, "", "key", str(number))], lambda committed: None
        )
        cluster.run(INTERVAL_MS / 2)
    assert no_ops(leader) == []


def test_leader_without_a_majority_appends_one_record_only() -> None:
    cluster = make_cluster(3)
    leader = cluster.leader()
    for node_id in [node_id for node_id in cluster.nodes if node_id != leader.settings.node_id]:
        cluster.kill(node_id)
    before = len(no_ops(leader))
    cluster.run(10 * INTERVAL_MS)
    assert len(no_ops(leader)) <= before + 1


def test_only_the_leader_writes_no_op_records() -> None:
    cluster = make_cluster(3)
    former = cluster.leader().settings.node_id
    cluster.kill(former)
    cluster.run_until(lambda: any(node.engine.is_leader for node in cluster.nodes.values()))
    cluster.start(former)
    cluster.run(5000)
    before = cluster.leader().log.end_offset
    cluster.run(10 * INTERVAL_MS)
    assert 9 <= cluster.leader().log.end_offset - before <= 10


def test_interval_of_zero_disables_no_op_records() -> None:
    cluster = Cluster(1, controller=NO_IDLE_RECORDS).start()
    leader = cluster.leader()
    cluster.run(100_000)
    assert no_ops(leader) == []


def test_default_interval_is_that_of_kafka() -> None:
    assert ControllerSettings().max_idle_interval_ms == INTERVAL_MS
