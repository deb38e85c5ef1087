"""The metrics: all of the KIP's, with the values of the node, in Prometheus's text."""

from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from quorumd.broker.log_management.directories import DirectorySpace
from quorumd.ids import KafkaUuid, ReplicaKey
from quorumd.node.statistics import Histogram, NodeStatistics
from quorumd.observability.broker_statistics import BrokerStatistics, LogDirectoryStatistics
from quorumd.observability.image_statistics import EMPTY_STATISTICS, ImageStatistics
from quorumd.observability.metrics import (
    METRICS,
    NOT_MEASURED,
    STATES,
    build_registry,
    documentation,
)
from quorumd.observability.node_metric import SampledState, buckets
from quorumd.raft.roles import Role
from tests.support.text import shows

KIP_595_DRAFT = [
    "CurrentLeader",
    "CurrentEpoch",
    "CurrentVote",
    "LogEndOffset",
    "LogEndEpoch",
    "BootTimestamp",
    "State",
    "NumQuorumVoters",
    "ElectionLatencyMax",
    "ElectionLatencyAvg",
    "ReplicationLatencyMax",
    "ReplicationLatencyAvg",
    "InboundRequestPerSec",
    "OutboundRequestPerSec",
    "FetchRecordsPerSec",
    "AppendRecordsPerSec",
    "ErrorResponsePerSec",
    "InboundChannelSize",
    "OutboundChannelSize",
    "TotalTimeMs",
    "InboundQueueTimeMs",
    "HandleTimeMs",
    "OutboundQueueTimeMs",
    "AvgIdlePercent",
]
KIP_595_ACCEPTED = [
    "current-state",
    "current-leader",
    "current-vote",
    "current-epoch",
    "high-watermark",
    "log-end-offset",
    "log-end-epoch",
    "boot-timestamp",
    "number-unknown-voter-connections",
    "commit-latency-avg",
    "commit-latency-max",
    "election-latency-avg",
    "election-latency-max",
    "fetch-records-rate",
    "append-records-rate",
    "poll-idle-ratio-avg",
]
SHIPPED_SINCE = [
    "current-vote-directory-id",
    "number-of-voters",
    "number-of-observers",
    "uncommitted-voter-change",
    "ignored-static-voters",
    "LatestSnapshotGeneratedBytes",
    "LatestSnapshotGeneratedAgeMs",
]
CONTROLLER_OF_KAFKA = [
    "FencedBrokerCount",
    "ActiveBrokerCount",
    "TimedOutBrokerHeartbeatCount",
    "GlobalTopicCount",
    "GlobalPartitionCount",
    "OfflinePartitionsCount",
    "LastAppliedRecordOffset",
    "PreferredReplicaImbalanceCount",
    "ElectionFromEligibleLeaderReplicasPerSec",
    "ControlledShutdownBrokerCount",
    "ActiveControllerCount",
    "CurrentMetadataVersion",
    "BrokerRegistrationState",
    "TimeSinceLastHeartbeatReceivedMs",
    "MetadataErrorCount",
    "NewActiveControllersCount",
    "LastAppliedRecordTimestamp",
    "LastAppliedRecordLagMs",
    "EventQueueTimeMs",
    "EventQueueProcessingTimeMs",
]
BROKER_OF_KAFKA = [
    "BrokerState",
    "PartitionCount",
    "LeaderCount",
    "UnderReplicatedPartitions",
    "UnderMinIsrPartitionCount",
    "OfflineLogDirectoryCount",
    "CordonedLogDirectoryCount",
    "LogDirectoryOffline",
    "MessagesInPerSec",
]
ALL_KIP_NAMES = KIP_595_DRAFT + KIP_595_ACCEPTED + SHIPPED_SINCE + CONTROLLER_OF_KAFKA + BROKER_OF_KAFKA


def make_node(**engine: Any) -> Any:
    statistics = NodeStatistics()
    for latency in (0.2, 3, 3, 70_000):
        statistics.commit_latency_ms.observe(latency)
    statistics.request_latency_ms[1] = Histogram()
    statistics.request_latency_ms[1].observe(500)
    statistics.request_latency_ms[1001] = Histogram()
    statistics.error_responses[(52, 74)] = 2
    statistics.error_responses[(999, 12345)] = 1
    statistics.appended_records = 7
    statistics.connections_open = 4
    statistics.snapshot_end_offset = 30
    statistics.snapshot_bytes = 12_345
    statistics.snapshot_timestamp_ms = 1_795_219_000_500
    statistics.event_processing_ms.observe(3)
    statistics.snapshots_built = 3
    statistics.snapshots_failed = 1
    statistics.snapshot_build_ms.observe(1500)
    state = {
        "role_name": "follower",
        "leader_id": 2,
        "epoch": 5,
        "high_watermark": 41,
        "voted": None,
        "is_leader": False,
        "voters": SimpleNamespace(current=SimpleNamespace(voters=("a", "b", "c"))),
        "has_uncommitted_voters": True,
    }
    return SimpleNamespace(
        engine=SimpleNamespace(**(state | engine)),
        log=SimpleNamespace(
            start_offset=20,
            end_offset=43,
            last_epoch=5,
            has_free_space=lambda: True,
            snapshots=SimpleNamespace(quarantined_count=2),
        ),
        monitor=SimpleNamespace(leaders_elected=6),
        statistics=statistics,
        boot_timestamp=1_795_219_837_974,
        unknown_voter_connections=1,
        settings=SimpleNamespace(node_id=3),
        cluster_id="LHi4wD3WRb24-aFIueoyAg",
        controller=SimpleNamespace(is_active=True, writer=SimpleNamespace(eligible_elections=3)),
    )


def scrape(
    node: Any, sampled: SampledState | None = None
) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = generate_latest(build_registry(node, sampled or SampledState())).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize("name", ALL_KIP_NAMES)
def test_every_kip_metric_exists_or_has_reason(name: str) -> None:
    measured = [metric.name for metric in METRICS if name in metric.kip]
    assert bool(measured) != (name in NOT_MEASURED)


def test_metrics_claim_only_kip_names() -> None:
    known = set(ALL_KIP_NAMES)
    assert {name for metric in METRICS for name in metric.kip} | set(NOT_MEASURED) == known


def test_accepted_kip_metrics_are_measured() -> None:
    assert not set(KIP_595_ACCEPTED) & set(NOT_MEASURED)


def test_follower_metrics_are_reported() -> None:
    samples = scrape(
        make_node(voted=ReplicaKey(1, KafkaUuid(bytes(15) + b"\x07"))), SampledState(idle_ratio=0.75)
    )
    for name, value in {
        "quorumd_raft_current_leader": 2,
        "quorumd_raft_current_vote": 1,
        "quorumd_raft_current_epoch": 5,
        "quorumd_raft_high_watermark": 41,
        "quorumd_raft_log_start_offset": 20,
        "quorumd_raft_log_end_offset": 43,
        "quorumd_raft_log_end_epoch": 5,
        "quorumd_raft_boot_timestamp_seconds": 1_795_219_837.974,
        "quorumd_raft_voters": 3,
        "quorumd_raft_unknown_voter_connections": 1,
        "quorumd_raft_appended_records_total": 7,
        "quorumd_raft_fetched_records_total": 0,
        "quorumd_event_loop_idle_ratio": 0.75,
        "quorumd_connections": 4,
        "quorumd_log_writable": 1,
        "quorumd_snapshot_end_offset": 30,
        "quorumd_snapshot_size_bytes": 12_345,
        "quorumd_snapshot_builds_total": 3,
        "quorumd_snapshot_build_failures_total": 1,
        "quorumd_snapshot_build_seconds_sum": 1.5,
        "quorumd_snapshot_timestamp_seconds": 1_795_219_000.5,
        "quorumd_event_processing_seconds_sum": 0.003,
        "quorumd_controller_leader_changes_total": 6,
        "quorumd_metadata_errors_total": 3,
    }.items():
        assert samples[name, ()] == pytest.approx(value), name
    assert (
        samples["quorumd_raft_current_vote_directory_info", (("directory_id", "AAAAAAAAAAAAAAAAAAAABw"),)]
        == 1
    )


def test_image_values_are_reported() -> None:
    node = make_node()
    node.statistics.sessions_expired = 2
    node.statistics.last_known_leader_elections = 7
    node.statistics.unclean_elections = 8
    samples = scrape(
        node, SampledState(image=ImageStatistics(2**48 - 1, 1000, 5, 2, 3, 40, 400, 4, 6, 9, 1, 25))
    )
    for name, value in {
        "quorumd_metadata_image_hash": 2**48 - 1,
        "quorumd_metadata_applied_offset": 1000,
        "quorumd_controller_registered_brokers": 5,
        "quorumd_controller_fenced_brokers": 2,
        "quorumd_controller_active_brokers": 3,
        "quorumd_controller_topics": 40,
        "quorumd_controller_partitions": 400,
        "quorumd_controller_offline_partitions": 4,
        "quorumd_controller_reassigning_partitions": 6,
        "quorumd_controller_eligible_leader_elections_total": 3,
        "quorumd_controller_imbalanced_partitions": 9,
        "quorumd_controller_draining_brokers": 1,
        "quorumd_controller_active": 1,
        "quorumd_metadata_version": 25,
        "quorumd_controller_expired_sessions_total": 2,
        "quorumd_controller_last_known_leader_elections_total": 7,
        "quorumd_controller_unclean_leader_elections_total": 8,
    }.items():
        assert samples[name, ()] == value, name


def test_broker_values_are_reported() -> None:
    image = EMPTY_STATISTICS._replace(
        broker_states=((7, 30), (9, 10)), heartbeat_ages_s=((7, 0.25), (9, 9.0)), applied_timestamp_ms=2500
    )
    delays = Histogram()
    delays.observe(4)
    samples = scrape(make_node(), SampledState(image=image, applied_lag_s=1.5, loop_delay_ms=delays))
    for name, values in {
        "quorumd_broker_registration_state": (30, 10),
        "quorumd_broker_heartbeat_age_seconds": (0.25, 9.0),
    }.items():
        assert tuple(samples[name, (("broker", broker),)] for broker in ("7", "9")) == values
    assert samples["quorumd_metadata_applied_timestamp_seconds", ()] == 2.5
    assert samples["quorumd_metadata_applied_lag_seconds", ()] == 1.5
    assert samples["quorumd_event_loop_delay_seconds_sum", ()] == 0.004


def test_unknown_leader_and_vote_are_minus_one() -> None:
    samples = scrape(make_node(leader_id=-1, high_watermark=-1))
    assert samples["quorumd_raft_current_leader", ()] == -1
    assert samples["quorumd_raft_current_vote", ()] == -1
    assert samples["quorumd_raft_high_watermark", ()] == -1


@pytest.mark.parametrize("state", STATES)
def test_exactly_one_state_is_current(state: str) -> None:
    samples = scrape(make_node(role_name=state))
    current = {
        key[1][0][1] for key, value in samples.items() if key[0] == "quorumd_raft_current_state" and value
    }
    assert current == {state}


def test_every_role_is_a_state() -> None:
    assert {role.value for role in Role} | {"voted", "observer"} == set(STATES)


def test_histograms_are_cumulative_and_in_seconds() -> None:
    histogram = Histogram((1, 10))
    for latency in (0.5, 1, 5, 11):
        histogram.observe(latency)
    assert buckets(histogram) == [("0.001", 2), ("0.01", 3), ("+Inf", 4)]
    samples = scrape(make_node())
    name = "quorumd_raft_commit_latency_seconds"
    assert samples[f"{name}_bucket", (("le", "0.00025"),)] == 1
    assert samples[f"{name}_bucket", (("le", "0.004"),)] == 3
    assert samples[f"{name}_bucket", (("le", "16.384"),)] == 3
    assert samples[f"{name}_bucket", (("le", "+Inf"),)] == samples[f"{name}_count", ()] == 4
    assert samples[f"{name}_sum", ()] == pytest.approx(70.0062)


def test_requests_and_errors_carry_names() -> None:
    samples = scrape(make_node())
    assert samples["quorumd_requests_total", (("api", "Fetch"),)] == 1
    assert samples["quorumd_requests_total", (("api", "FetchQuorumRecords"),)] == 0
    assert samples["quorumd_request_latency_seconds_sum", (("api", "Fetch"),)] == 0.5
    errors = "quorumd_request_errors_total"
    assert samples[errors, (("api", "Vote"), ("error", "FENCED_LEADER_EPOCH"))] == 2
    assert samples[errors, (("api", "999"), ("error", "12345"))] == 1


def test_broker_metrics_are_reported_with_that_role_only() -> None:
    figures = BrokerStatistics(3, 40, 20, 2, 1, 77, unread_batches=5)
    samples = scrape(make_node(), SampledState(broker=figures))
    assert samples["quorumd_broker_state", ()] == 3
    assert samples["quorumd_broker_partitions", ()] == 40
    assert samples["quorumd_broker_leaders", ()] == 20
    assert samples["quorumd_broker_under_replicated_partitions", ()] == 2
    assert samples["quorumd_broker_under_min_isr_partitions", ()] == 1
    assert samples["quorumd_broker_messages_in_total", ()] == 77
    assert samples["quorumd_broker_compaction_unread_batches_total", ()] == 5
    assert ("quorumd_broker_state", ()) not in scrape(make_node())


def test_log_directories_are_reported_by_their_paths() -> None:
    directories = (
        LogDirectoryStatistics("/a", True, True, 5000, 2, DirectorySpace(10_000, 4000)),
        LogDirectoryStatistics("/b", False, True, 0, 0, DirectorySpace()),
    )
    samples = scrape(make_node(), SampledState(broker=BrokerStatistics(3, 40, 20, 2, 1, 77, directories)))
    assert samples["quorumd_broker_offline_log_directories", ()] == 1
    assert samples["quorumd_broker_cordoned_log_directories", ()] == 2
    found = {
        (name.removeprefix("quorumd_broker_"), dict(labels)["directory"]): value
        for (name, labels), value in samples.items()
        if "directory" in dict(labels)
    }
    assert found == {
        ("log_bytes", "/a"): 5000,
        ("log_bytes", "/b"): 0,
        ("log_directory_offline", "/a"): 0,
        ("log_directory_offline", "/b"): 1,
        ("log_directory_cordoned", "/a"): 1,
        ("log_directory_cordoned", "/b"): 1,
        ("log_directory_total_bytes", "/a"): 10_000,
        ("log_directory_usable_bytes", "/a"): 4000,
        ("future_replicas", "/a"): 2,
        ("future_replicas", "/b"): 0,
    }


def test_process_metrics_are_exposed() -> None:
    assert scrape(make_node())["process_resident_memory_bytes", ()] > 1_000_000


def test_names_follow_prometheus() -> None:
    names = [metric.exposed_name for metric in METRICS]
    assert len(names) == len(set(names))
    for metric in METRICS:
        assert metric.name.startswith("quorumd_")
        assert not metric.name.endswith("_total")
        assert not any(part in metric.name for part in ("_ms", "millis", "percent", "_avg"))
        assert metric.help.endswith(".")
        if metric.kind == "histogram":
            assert metric.name.endswith("_seconds")


def test_documentation_has_a_row_for_every_metric() -> None:
    rows = documentation().splitlines()[2:]
    assert len(rows) == len(METRICS)
    assert any(shows(row, "quorumd_requests_total", "counter", "api", "InboundRequestPerSec") for row in rows)
