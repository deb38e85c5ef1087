"""Every metric in one list, and the Prometheus collector that reads a node when it is scraped.

The scraper's thread reads plain attributes of the node and copies of its counters, without work for the event thread.
Names follow Prometheus (base units, `_total`); `kip` has the names in the KIPs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from quorumd import __version__
from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE
from quorumd.node.node import Node
from quorumd.observability.broker_metrics import BROKER_METRICS
from quorumd.observability.controller_metrics import CONTROLLER_METRICS
from quorumd.observability.node_metric import NodeMetric, Sample, SampledState, single
from quorumd.protocol.apis import APIS

STATES = (
    "leader",
    "candidate",
    "prospective",
    "voted",
    "follower",
    "unattached",
    "resigned",
    "observer",
)


def _current_state(node: Node, sampled: SampledState) -> Iterator[Sample]:
    role = node.engine.role_name
    for state in STATES:
        yield (state,), state == role


def _current_vote(node: Node) -> int:
    voted = node.engine.voted
    return NO_NODE if voted is None else voted.id


def _vote_directory(node: Node, sampled: SampledState) -> Iterator[Sample]:
    voted = node.engine.voted
    if voted is not None:
        yield (str(voted.directory_id),), 1


def api_name(key: int) -> str:
    """The name of an API, or its number if it is unknown."""
    known = APIS.get(key)
    return known.name if known else str(key)


def error_name(code: int) -> str:
    """The name of an error code, or its number if it is unknown."""
    return ErrorCode(code).name if code in set(ErrorCode) else str(code)


def _requests(node: Node, sampled: SampledState) -> Iterator[Sample]:
    for key, histogram in sorted(node.statistics.request_latency_ms.items()):
        yield (api_name(key),), sum(histogram.counts)


def _request_latency(node: Node, sampled: SampledState) -> Iterator[Sample]:
    for key, histogram in sorted(node.statistics.request_latency_ms.items()):
        yield (api_name(key),), histogram


def _errors(node: Node, sampled: SampledState) -> Iterator[Sample]:
    for (key, code), count in sorted(node.statistics.error_responses.items()):
        yield (api_name(key), error_name(code)), count


def _denied(node: Node, sampled: SampledState) -> Iterator[Sample]:
    for api, count in sorted(node.statistics.authorization.denied.items()):
        yield (api,), count


def _throttle_seconds(node: Node, sampled: SampledState) -> Iterator[Sample]:
    for key, throttle_ms in sorted(node.statistics.quotas.throttle_ms.items()):
        yield (key,), throttle_ms / 1000


def _build(node: Node, sampled: SampledState) -> Iterator[Sample]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield (__version__, python, str(node.settings.node_id), node.cluster_id or ""), 1


METRICS: tuple[NodeMetric, ...] = (
    NodeMetric(
        "quorumd_raft_current_state",
        "gauge",
        "1 for the current state of this node, 0 for all others.",
        _current_state,
        ("state",),
        ("current-state", "State"),
    ),
    NodeMetric(
        "quorumd_raft_current_leader",
        "gauge",
        "Id of the leader, -1 if unknown.",
        single(lambda node: node.engine.leader_id),
        kip=("current-leader", "CurrentLeader"),
    ),
    NodeMetric(
        "quorumd_raft_current_vote",
        "gauge",
        "Id of the node voted for in this epoch, -1 if none.",
        single(_current_vote),
        kip=("current-vote", "CurrentVote"),
    ),
    NodeMetric(
        "quorumd_raft_current_vote_directory_info",
        "gauge",
        "1 for the directory id voted for in this epoch (KIP-853).",
        _vote_directory,
        ("directory_id",),
        ("current-vote-directory-id",),
    ),
    NodeMetric(
        "quorumd_raft_current_epoch",
        "gauge",
        "Epoch of the quorum, 0 before the first election.",
        single(lambda node: node.engine.epoch),
        kip=("current-epoch", "CurrentEpoch"),
    ),
    NodeMetric(
        "quorumd_raft_high_watermark",
        "gauge",
        "Offset below which all records are committed, -1 if unknown.",
        single(lambda node: node.engine.high_watermark),
        kip=("high-watermark",),
    ),
    NodeMetric(
        "quorumd_raft_log_start_offset",
        "gauge",
        "First offset of the log; earlier records are in a snapshot.",
        single(lambda node: node.log.start_offset),
    ),
    NodeMetric(
        "quorumd_raft_log_end_offset",
        "gauge",
        "Offset of the next record appended to the log.",
        single(lambda node: node.log.end_offset),
        kip=("log-end-offset", "LogEndOffset"),
    ),
    NodeMetric(
        "quorumd_raft_log_end_epoch",
        "gauge",
        "Epoch of the last record in the log.",
        single(lambda node: node.log.last_epoch),
        kip=("log-end-epoch", "LogEndEpoch"),
    ),
    NodeMetric(
        "quorumd_raft_boot_timestamp_seconds",
        "gauge",
        "Unix time of this node's start; it never decreases.",
        single(lambda node: node.boot_timestamp / 1000),
        kip=("boot-timestamp", "BootTimestamp"),
    ),
    NodeMetric(
        "quorumd_raft_voters",
        "gauge",
        "Voters in the latest voter set of the log.",
        single(lambda node: len(node.engine.voters.current.voters)),
        kip=("number-of-voters", "NumQuorumVoters"),
    ),
    NodeMetric(
        "quorumd_raft_observers",
        "gauge",
        "Leader: observers that fetch; 0 on other nodes.",
        lambda node, sampled: [((), sampled.observers)],
        kip=("number-of-observers",),
    ),
    NodeMetric(
        "quorumd_raft_uncommitted_voter_change",
        "gauge",
        "Leader: 1 while the latest voters record is uncommitted; 0 on other nodes.",
        single(lambda node: float(node.engine.has_uncommitted_voters)),
        kip=("uncommitted-voter-change",),
    ),
    NodeMetric(
        "quorumd_raft_unknown_voter_connections",
        "gauge",
        "Voters with an unknown address.",
        single(lambda node: node.unknown_voter_connections),
        kip=("number-unknown-voter-connections",),
    ),
    NodeMetric(
        "quorumd_raft_commit_latency_seconds",
        "histogram",
        "Leader: time from the append of a record to its commit.",
        single(lambda node: node.statistics.commit_latency_ms),
        kip=("commit-latency-avg", "ReplicationLatencyAvg", "commit-latency-max", "ReplicationLatencyMax"),
    ),
    NodeMetric(
        "quorumd_raft_election_latency_seconds",
        "histogram",
        "Voter: time from becoming a candidate to knowing the leader.",
        single(lambda node: node.statistics.election_latency_ms),
        kip=("election-latency-avg", "ElectionLatencyAvg", "election-latency-max", "ElectionLatencyMax"),
    ),
    NodeMetric(
        "quorumd_raft_fetched_records",
        "counter",
        "Follower, observer: records fetched from the leader and appended.",
        single(lambda node: node.statistics.fetched_records),
        kip=("fetch-records-rate", "FetchRecordsPerSec"),
    ),
    NodeMetric(
        "quorumd_raft_appended_records",
        "counter",
        "Leader: records appended to the log.",
        single(lambda node: node.statistics.appended_records),
        kip=("append-records-rate", "AppendRecordsPerSec"),
    ),
    NodeMetric(
        "quorumd_log_flush_latency_seconds",
        "histogram",
        "Duration of a flush of the log to disk.",
        single(lambda node: node.statistics.flush_latency_ms),
    ),
    NodeMetric(
        "quorumd_log_writable",
        "gauge",
        "0 while the log accepts no records because the disk is full, otherwise 1.",
        single(lambda node: node.log.has_free_space()),
    ),
    NodeMetric(
        "quorumd_snapshot_end_offset",
        "gauge",
        "End offset of the newest snapshot, 0 if there is none.",
        single(lambda node: node.statistics.snapshot_end_offset),
    ),
    NodeMetric(
        "quorumd_snapshot_size_bytes",
        "gauge",
        "Size of the newest snapshot.",
        single(lambda node: node.statistics.snapshot_bytes),
        kip=("LatestSnapshotGeneratedBytes",),
    ),
    NodeMetric(
        "quorumd_snapshot_timestamp_seconds",
        "gauge",
        "Unix time of the last record in this node's newest snapshot, 0 if there is none.",
        single(lambda node: node.statistics.snapshot_timestamp_ms / 1000),
        kip=("LatestSnapshotGeneratedAgeMs",),
    ),
    NodeMetric(
        "quorumd_snapshot_builds",
        "counter",
        "Snapshots built by this node.",
        single(lambda node: node.statistics.snapshots_built),
    ),
    NodeMetric(
        "quorumd_snapshot_build_failures",
        "counter",
        "Snapshots that this node failed to build; the log has the reasons.",
        single(lambda node: node.statistics.snapshots_failed),
    ),
    NodeMetric(
        "quorumd_snapshot_build_seconds",
        "histogram",
        "Duration of building a snapshot in the background.",
        single(lambda node: node.statistics.snapshot_build_ms),
    ),
    *CONTROLLER_METRICS,
    *BROKER_METRICS,
    NodeMetric(
        "quorumd_event_loop_idle_ratio",
        "gauge",
        "Fraction of the last second in which the event thread was idle; waiting for a disk counts as idle.",
        lambda node, sampled: [((), sampled.idle_ratio)],
        kip=("poll-idle-ratio-avg", "AvgIdlePercent"),
    ),
    NodeMetric(
        "quorumd_event_loop_delay_seconds",
        "histogram",
        "Delay of scheduled work on the event thread, sampled once per second.",
        lambda node, sampled: [((), sampled.loop_delay_ms)],
        kip=("EventQueueTimeMs",),
    ),
    NodeMetric(
        "quorumd_event_processing_seconds",
        "histogram",
        "Time that the event thread took to handle the data of one connection or the end of a flush.",
        single(lambda node: node.statistics.event_processing_ms),
        kip=("EventQueueProcessingTimeMs",),
    ),
    NodeMetric(
        "quorumd_requests",
        "counter",
        "Requests responded to.",
        _requests,
        ("api",),
        ("InboundRequestPerSec",),
    ),
    NodeMetric(
        "quorumd_request_latency_seconds",
        "histogram",
        "Time from the arrival of a request until its response is queued, long polls included.",
        _request_latency,
        ("api",),
        ("TotalTimeMs", "HandleTimeMs"),
    ),
    NodeMetric(
        "quorumd_request_errors",
        "counter",
        "Errors in responses to peers and clients.",
        _errors,
        ("api", "error"),
        ("ErrorResponsePerSec",),
    ),
    NodeMetric(
        "quorumd_authorization_allowed",
        "counter",
        "Operations that the authorizer allowed.",
        single(lambda node: node.statistics.authorization.allowed_total),
    ),
    NodeMetric(
        "quorumd_authorization_denied",
        "counter",
        "Operations that the authorizer denied to clients that requested them.",
        _denied,
        ("api",),
    ),
    NodeMetric(
        "quorumd_throttled_requests",
        "counter",
        "Requests, or connections for connection_creation_rate, that exceeded a quota.",
        lambda node, sampled: [
            ((key,), count) for key, count in sorted(node.statistics.quotas.throttled.items())
        ],
        ("quota",),
    ),
    NodeMetric(
        "quorumd_throttle_seconds",
        "counter",
        "Sum of the times for which clients were throttled.",
        _throttle_seconds,
        ("quota",),
    ),
    NodeMetric(
        "quorumd_connections",
        "gauge",
        "Open accepted connections.",
        single(lambda node: node.statistics.connections_open),
    ),
    NodeMetric(
        "quorumd_connections_refused",
        "counter",
        "Connections rejected because of max.connections or max.connections.per.ip.",
        single(lambda node: node.statistics.connections_refused),
    ),
    NodeMetric(
        "quorumd_malformed_frames",
        "counter",
        "Frames that were not a valid request; each closed its connection.",
        single(lambda node: node.statistics.malformed_frames),
    ),
    NodeMetric(
        "quorumd_failed_authentications",
        "counter",
        "Clients that failed to authenticate by SASL; each lost its connection.",
        single(lambda node: node.statistics.failed_authentications),
    ),
    NodeMetric(
        "quorumd_certificate_expiry_timestamp_seconds",
        "gauge",
        "Unix time at which the certificate of a listener with TLS expires.",
        lambda node, sampled: [((name,), at) for name, at in node.statistics.certificate_expiry_s.items()],
        ("listener",),
    ),
    NodeMetric(
        "quorumd_build_info",
        "gauge",
        "Always 1; the labels describe this node's build.",
        _build,
        ("version", "python", "node_id", "cluster_id"),
    ),
)

NOT_MEASURED = {
    "InboundChannelSize": "requests are handled as they arrive; there is no queue",
    "InboundQueueTimeMs": "requests are handled as they arrive; there is no queue",
    "OutboundChannelSize": "responses are written at the end of the tick; there is no queue",
    "OutboundQueueTimeMs": "responses are written at the end of the tick; there is no queue",
    "OutboundRequestPerSec": "requests are counted by the node that receives them",
    "ignored-static-voters": "quorum.voters is always ignored once the log has voters",
}
"""Metrics of the KIP drafts and of Kafka that do not apply, with the reason."""


class NodeCollector(Collector):
    """Collects METRICS from one node."""

    def __init__(self, node: Node, sampled: SampledState) -> None:
        self._node = node
        self._sampled = sampled

    def describe(self) -> Iterable[Metric]:
        # Called at registration, when the node may not have started.
        return ()

    def collect(self) -> Iterator[Metric]:
        for metric in METRICS:
            yield metric.collect(self._node, self._sampled)


def build_registry(node: Node, sampled: SampledState) -> CollectorRegistry:
    """The registry behind /metrics: the node and its process (`process_*`: memory, CPU, file descriptors)."""
    registry = CollectorRegistry()
    registry.register(NodeCollector(node, sampled))
    ProcessCollector(registry=registry)
    return registry


def documentation() -> str:
    """Format METRICS as a Markdown table."""
    lines = ["| metric | type | labels | meaning | in KIP-595 and after |", "|---|---|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(metric.labels)
        kip = ", ".join(metric.kip)
        lines.append(f"| `{metric.exposed_name}` | {metric.kind} | {labels} | {metric.help} | {kip} |")
    return "\n".join(lines) + "\n"
