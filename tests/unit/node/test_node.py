"""Whole nodes on simulated machines: start, rejected starts, serving and shutdown."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from quorumd.controller.cluster_image import KRAFT_VERSION
from quorumd.controller.metadata_versions import LATEST_VERSION, default_levels
from quorumd.errors import ConfigError, CorruptLog, DiskFull, ErrorCode, ExitCode, StorageError
from quorumd.ids import METADATA_TOPIC
from quorumd.log import LogSettings
from quorumd.log.meta_properties import load_meta_properties, partition_directory, save_meta_properties
from quorumd.log.quorum_state_file import QuorumStateFile, SavedState
from quorumd.node.peers.connection import Call
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.messages import (
    describe_configs_request,
    describe_quorum_request,
    incremental_alter_configs_request,
)
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.discover_brokers_request import DiscoverBrokersRequest
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import encode_batch, values
from tests.support.node.nodes import DATA_DIRECTORY, Client, Closed, Cluster

BROKER = 4
BROKER_CONFIG = 2


def setting(name: str, value: str, broker: str = "7") -> Any:
    wire = incremental_alter_configs_request
    return wire.IncrementalAlterConfigsRequest(
        [wire.AlterConfigsResource(BROKER, broker, [wire.AlterableConfig(name, 0, value)])]
    )


def set_config(client: Client, name: str, value: str) -> int:
    error: int = client.request(setting(name, value), 1).responses[0].error_code
    return error


def get_configs(client: Client, broker: str = "7") -> dict[str, str]:
    wire = describe_configs_request
    request = wire.DescribeConfigsRequest([wire.DescribeConfigsResource(BROKER, broker, None)])
    (result,) = client.request(request, 4).results
    assert result.error_code == 0
    return {entry.name: entry.value for entry in result.configs if entry.config_source == BROKER_CONFIG}


def describe_quorum() -> Any:
    wire = describe_quorum_request
    return wire.DescribeQuorumRequest([wire.TopicData(METADATA_TOPIC, [wire.PartitionData(0)])])


# Starting


def test_unformatted_directory_is_rejected() -> None:
    cluster = Cluster()
    cluster.disks[1].remove(f"{DATA_DIRECTORY}/meta.properties")
    with pytest.raises(StorageError, match="not formatted"):
        cluster.start(1)
    cluster.format(1, founds=True)
    cluster.start(1).leader()


def test_directory_of_another_node_is_rejected() -> None:
    cluster = Cluster(2)
    cluster.disks[2] = cluster.disks[1]
    with pytest.raises(StorageError, match="belongs to node 1"):
        cluster.start(2)


def test_hole_21_copied_quorum_state_is_rejected() -> None:
    cluster = Cluster()
    QuorumStateFile(cluster.disks[1], partition_directory(DATA_DIRECTORY)).save(SavedState(3, broker_id=2))
    with pytest.raises(StorageError, match="written by node 2"):
        cluster.start(1)


def test_directory_in_use_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster().start()
    first = cluster.leader()
    monkeypatch.setattr(cluster.disks[1], "mount", lambda process: None)  # the first process keeps running
    with pytest.raises(StorageError, match="another process"):
        cluster.start_node(1)
    assert first.engine.is_leader


def test_address_in_use_leaves_the_directory_untouched() -> None:
    cluster = Cluster()
    other = cluster.network.host("10.0.0.1").listen("10.0.0.1", 9092, lambda: pytest.fail("connected"))
    with pytest.raises(OSError, match="used by another process"):
        cluster.start_node(1)
    assert not cluster.disks[1].exists(f"{DATA_DIRECTORY}/boot-timestamp"), "written before the bind"
    other.close()
    cluster.start(1).leader()


def test_node_without_peers_is_rejected() -> None:
    cluster = Cluster(founds=False)
    no_peers: dict[str, Any] = {"voter_addresses": (), "bootstrap_voters": ()}
    with pytest.raises(ConfigError, match=r"node 1 has no peers.*set quorum\.voters"):
        cluster.start_node(1, **no_peers)
    cluster.format(1, founds=True)
    cluster.start().leader()
    cluster.kill(1)
    cluster.start_node(1, **no_peers)
    assert cluster.leader().engine.voters.current.ids == (1,), "the log holds the voters"


def test_failed_start_releases_address_and_directory() -> None:
    cluster = Cluster()
    cluster.disks[1].make_directory(f"{DATA_DIRECTORY}/boot-timestamp.tmp")
    with pytest.raises(StorageError):
        cluster.start_node(1)
    assert cluster.network.listener_at(("10.0.0.1", 9092)) is None
    cluster.disks[1].lock(f"{DATA_DIRECTORY}/.lock")


def test_node_starts_and_serves_on_a_full_disk() -> None:
    cluster = Cluster().start()
    assert set_config(cluster.client(), "a", "1") == 0
    cluster.leader().shut_down()
    cluster.run_until(lambda: cluster.exits)
    cluster.run(10)
    disk = cluster.disks[1]
    disk.capacity = disk.used_bytes()
    cluster.start_node(1)
    cluster.run(5000)
    assert cluster.exits == [(1, ExitCode.DONE, "")]
    disk.repair()
    cluster.leader()
    assert get_configs(cluster.client()) == {"a": "1"}


# The first leader


def test_first_leader_founds_the_cluster_and_every_node_joins() -> None:
    cluster = Cluster(3).start()
    leader = cluster.leader()
    cluster.run(3000)
    assert leader.cluster_id is not None
    assert {node.cluster_id for node in cluster.nodes.values()} == {leader.cluster_id}
    for node_id in cluster.voters:
        meta = load_meta_properties(cluster.disks[node_id], DATA_DIRECTORY)
        assert meta is not None
        assert meta.cluster_id == leader.cluster_id


def test_formatted_cluster_id_becomes_the_cluster_id() -> None:
    cluster = Cluster(3, cluster_id="f" * 22).start()
    assert cluster.leader().cluster_id == "f" * 22


def test_bootstrap_records_are_written_once() -> None:
    """Stock readers publish no image before they know the metadata version."""
    cluster = Cluster().start()
    features = default_levels(LATEST_VERSION.level)
    del features[KRAFT_VERSION]
    assert cluster.leader().state_machine.image.features == features
    cluster.run(100)
    end = cluster.nodes[1].log.end_offset
    cluster.kill(1)
    cluster.start(1).leader()
    cluster.run(100)
    assert cluster.nodes[1].log.end_offset == end + 1, "only the LeaderChange of the new epoch"


def test_hole_24_nodes_with_different_voters_elect_no_leader() -> None:
    cluster = Cluster(2, founds=False)
    cluster.start_node(1, bootstrap_voters=(1, 2, 3))
    cluster.start_node(2, bootstrap_voters=(2, 4, 5))
    cluster.run(20_000)
    assert [node.engine.is_leader for node in cluster.nodes.values()] == [False, False]
    assert [node.log.end_offset for node in cluster.nodes.values()] == [0, 0]


def test_cluster_id_that_was_not_written_on_a_full_disk_is_discarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first leader could not write; the next leader founds the cluster."""
    cluster = Cluster(3)
    for node_id in (2, 3):
        cluster.start_node(node_id)
    full = cluster.disks[1]
    node = cluster.start_node(1)
    monkeypatch.setattr(node.log, "append", refuse_once(node.log.append))
    cluster.run_until(lambda: all(n.cluster_id for n in cluster.nodes.values()))
    cluster.run(3000)
    assert cluster.exits == []
    assert len({n.cluster_id for n in cluster.nodes.values()}) == 1
    assert full.syncs_failed == 0


def refuse_once(append: Any) -> Any:
    refused: list[int] = []

    def refusing(data: bytes, end_offset: int) -> None:
        if not refused:
            refused.append(end_offset)
            raise DiskFull("no room for the first batch")
        append(data, end_offset)

    return refusing


def test_log_of_another_cluster_stops_the_node() -> None:
    """quorum-state holds no cluster id in this directory; otherwise the start would fail."""
    cluster = Cluster().start()
    original = cluster.leader().cluster_id
    cluster.run(1000)
    cluster.kill(1)
    disk = cluster.disks[1]
    meta = load_meta_properties(disk, DATA_DIRECTORY)
    assert meta is not None
    save_meta_properties(disk, DATA_DIRECTORY, meta._replace(cluster_id="x" * 22))
    QuorumStateFile(disk, partition_directory(DATA_DIRECTORY)).save(SavedState(1, broker_id=1))
    cluster.start(1)
    cluster.run_until(lambda: cluster.exits)
    ((_, exit_code, reason),) = cluster.exits
    assert exit_code == ExitCode.DATA_DIRECTORY
    assert f"cluster {original}" in reason


# Serving


def test_every_node_serves_writes_and_reads() -> None:
    cluster = Cluster(3).start()
    cluster.leader()
    clients = [cluster.client(node_id) for node_id in cluster.voters]
    for number, client in enumerate(clients):
        assert set_config(client, f"k{number}", "v") == 0
    for client in clients:
        assert get_configs(client) == {"k0": "v", "k1": "v", "k2": "v"}


def test_write_in_flight_when_the_leader_dies_is_not_retried() -> None:
    cluster = Cluster(3).start()
    leader, follower = cluster.leader(), cluster.follower()
    client = cluster.client(follower.settings.node_id)
    assert set_config(client, "a", "1") == 0
    for other in cluster.voters:
        if other != leader.settings.node_id:
            cluster.network.block(f"10.0.0.{leader.settings.node_id}", f"10.0.0.{other}")
    client.send(setting("a", "2"), 1)
    cluster.run(50)
    cluster.kill(leader.settings.node_id)
    cluster.network.heal()
    cluster.run_until(lambda: len(client.responses) == 2)
    last: Any = client.responses[1]
    assert last.responses[0].error_code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER)
    written = [record for node in cluster.nodes.values() for record in values_of(node)]
    assert written.count("2") == 0


def values_of(node: Any) -> list[str]:
    data = node.log.read(0, 1 << 20)
    found = [decode_record(v) for h in headers(data) if not h.is_control for v in values(data, h)]
    return [record.value or "" for record in found if isinstance(record, ConfigRecord)]


def test_forwarded_read_survives_the_death_of_the_leader() -> None:
    cluster = Cluster(3).start()
    leader, follower = cluster.leader(), cluster.follower()
    client = cluster.client(follower.settings.node_id)
    assert set_config(client, "a", "1") == 0
    wire = describe_configs_request
    client.send(wire.DescribeConfigsRequest([wire.DescribeConfigsResource(BROKER, "7", ["a"])]), 4)
    cluster.run(0.3)
    cluster.kill(leader.settings.node_id)
    cluster.run_until(lambda: len(client.responses) == 2)
    response: Any = client.responses[1]
    assert response.results[0].error_code == 0
    assert [entry.value for entry in response.results[0].configs] == ["1"]


def test_controller_clients_are_redirected_to_the_leader() -> None:
    cluster = Cluster(3).start()
    leader, follower = cluster.leader(), cluster.follower()
    client = cluster.client(follower.settings.node_id)
    described = client.request(DescribeClusterRequest(endpoint_type=2), 1)
    assert described.controller_id == leader.settings.node_id
    assert described.controller_id in [broker.broker_id for broker in described.brokers]
    assert set_config(client, "a", "1") == ErrorCode.NOT_CONTROLLER
    response = client.request(describe_quorum(), 2)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("version", range(3))
def test_voter_that_never_fetched_has_no_timestamps(version: int) -> None:
    cluster = Cluster(3)
    cluster.start(1, 2)
    leader = cluster.leader()
    client = cluster.client(leader.settings.node_id)
    (partition,) = client.request(describe_quorum(), version).topics[0].partitions
    (third,) = [state for state in partition.current_voters if state.replica_id == 3]
    assert third.log_end_offset == -1
    assert (third.last_fetch_timestamp, third.last_caught_up_timestamp) == (-1, -1)
    assert partition.leader_id in [state.replica_id for state in partition.current_voters]


GARBAGE = [
    b"\x00\x00\x00\x00",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x00\x00\x00\x0a\x27\x0f\x00\x00\x00\x00\x00\x01\xff\xff",
    b"\x00\x00\x00\x0b\x00\x12\x00\x04\x00\x00\x00\x01\xff\xff\xff",
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=repr)
def test_malformed_frame_closes_its_connection_with_one_log_line(
    garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster().start()
    node = cluster.leader()
    good, bad = cluster.client(), cluster.client()
    with caplog.at_level(logging.WARNING):
        bad.send_bytes(garbage)
        cluster.run(10)
    assert bad.is_closed
    assert node.statistics.malformed_frames == 1
    assert len([record for record in caplog.records if "closing" in record.message]) == 1
    assert set_config(good, "a", "1") == 0
    assert cluster.exits == []


def test_unencodable_response_closes_only_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster().start()
    node = cluster.leader()
    node.core.quorum.identity.cluster_id = "c" * 40_000
    good, bad = cluster.client(), cluster.client()
    with pytest.raises(Closed):
        bad.request(MetadataRequest([]), 2)
    assert "cannot be encoded" in caplog.text
    assert set_config(good, "a", "1") == 0


def test_damage_in_a_committed_sealed_segment_prevents_the_start() -> None:
    cluster = Cluster(voters=1, log=LogSettings(segment_bytes=1024)).start()
    node = cluster.leader()
    client = cluster.client()
    began = cluster.heap.now_ms
    while node.log.active_base_offset == 0:
        set_config(client, "a", "x" * 200)
    set_config(client, "a", "committed and flushed behind the sealed segment")
    cluster.run(100.0)
    assert cluster.heap.now_ms - began < 5000.0  # before the first checkpoint, which is due after 5 seconds
    cluster.kill(1)
    path = f"{partition_directory(DATA_DIRECTORY)}/{0:020d}.log"
    cluster.disks[1].corrupt(path, 300, 1)
    with pytest.raises(CorruptLog, match=f"{0:020d}.log"):
        cluster.start_node(1)
    cluster.disks[1].restore()
    cluster.start_node(1)


def test_leader_stops_and_sends_nothing_when_it_reads_damaged_batches() -> None:
    cluster = Cluster(voters=3, log=LogSettings(segment_bytes=1024))
    cluster.start(1, 2)
    leader = cluster.leader()
    client = cluster.client(leader.settings.node_id)
    while leader.log.active_base_offset == 0:
        set_config(client, "a", "x" * 200)
    cluster.run(1000.0)
    node_id = leader.settings.node_id
    leader.log._tail.clear()  # as after a restart: reads come from the disk
    cluster.disks[node_id].corrupt(f"{partition_directory(DATA_DIRECTORY)}/{0:020d}.log", 300, 1)
    cluster.start(3)
    cluster.run_until(lambda: cluster.exits)
    ((ended, code, reason),) = cluster.exits
    assert (ended, code) == (node_id, ExitCode.DATA_DIRECTORY)
    assert "CRC" in reason
    assert cluster.nodes[3].log.end_offset == 0


# Shutdown


def test_graceful_shutdown_completes_requests_and_hands_over_leadership() -> None:
    cluster = Cluster(3).start()
    leader = cluster.leader()
    client = cluster.client(leader.settings.node_id)
    client.send(setting("a", "1"), 1)
    cluster.run(0.2)
    leader.shut_down()
    leader.shut_down()
    cluster.run_until(lambda: cluster.exits)
    assert cluster.exits == [(leader.settings.node_id, ExitCode.DONE, "")]
    cluster.run(100)
    assert client.is_closed
    response: Any = client.responses[0]
    assert response.responses[0].error_code == 0
    cluster.run(2000)
    assert get_configs(cluster.client(cluster.follower().settings.node_id)) == {"a": "1"}


def test_shutdown_does_not_wait_for_free_disk_space(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(3).start()
    cluster.leader()
    cluster.run(1000)
    node = cluster.follower()
    disk = cluster.disks[node.settings.node_id]
    refused: list[Any] = []
    save = QuorumStateFile.save

    def full(file: QuorumStateFile, state: SavedState) -> None:
        if file._disk is not disk:
            save(file, state)
            return
        refused.append(state)
        raise DiskFull("no room for quorum-state")

    monkeypatch.setattr(QuorumStateFile, "save", full)
    cluster.kill(cluster.leader().settings.node_id)
    cluster.run_until(lambda: refused)
    node.shut_down()
    cluster.run_until(lambda: cluster.exits, limit_ms=8000)
    assert cluster.exits == [(node.settings.node_id, ExitCode.DONE, "")]
    assert disk.syncs_failed == 0


def test_failed_flush_stops_the_node_immediately() -> None:
    cluster = Cluster().start()
    cluster.leader()
    client = cluster.client()
    cluster.disks[1].fail_sync()
    client.send(setting("a", "1"), 1)
    cluster.run_until(lambda: cluster.exits)
    assert cluster.exits[0][:2] == (1, ExitCode.FLUSH_FAILED)
    cluster.run(100)
    assert client.is_closed
    assert all(response.responses[0].error_code != 0 for response in client.responses)


def test_violated_invariant_stops_the_node_with_its_exit_code() -> None:
    cluster = Cluster().start()
    cluster.leader().core.lifecycle.fail("two leaders in epoch 3")
    assert cluster.exits == [(1, ExitCode.INVARIANT_VIOLATED, "two leaders in epoch 3")]


def test_unknown_committed_record_shuts_the_node_down() -> None:
    """Without a traceback: a newer version wrote it."""
    cluster = Cluster(3).start()
    leader = cluster.leader()
    log = leader.log
    batch = encode_batch(log.end_offset, leader.engine.epoch, 1000, [b"\x01\x7f\x00"])
    assert leader.core.runner.propose(batch, log.end_offset + 1)
    cluster.run_until(lambda: cluster.exits)
    ((_, exit_code, reason),) = cluster.exits
    assert exit_code == ExitCode.DATA_DIRECTORY
    assert "cannot be applied at offset" in reason


def test_sessions_are_removed_with_their_connections() -> None:
    cluster = Cluster(3).start()
    node = cluster.leader()
    cluster.run(2000)
    before = len(node.core.incoming._sessions)
    for _ in range(20):
        client = cluster.client(node.settings.node_id)
        assert set_config(client, "a", "1") == 0
        client.close()
    cluster.run(100)
    assert len(node.core.incoming._sessions) == before
    assert node.statistics.connections_open == before


def test_connections_to_unreachable_addresses_are_removed() -> None:
    cluster = Cluster().start()
    node = cluster.leader()
    for port in range(1, 50):
        node.context.peers.connections.call("10.9.9.9", port, discovery_call(cluster))
        cluster.network.host("10.9.9.9")
        cluster.run(100)
    assert len(node.context.peers.connections) < 10


def discovery_call(cluster: Cluster) -> Any:
    now = cluster.nodes[1].clock.now_ms()
    return Call(
        ApiKey.DISCOVER_BROKERS,
        lambda version: DiscoverBrokersRequest(),
        lambda response: None,
        lambda failure: None,
        now + 1000,
    )
