"""Every metric in one list, and the Prometheus collector that reads a node when it is scraped.

Reading happens in the scraper's thread: plain attributes of the node and copies of its counters, nothing that the
event thread would have to do. Names follow Prometheus (base units, `_total`), with the KIP's name in `kip`.
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
    """The name of an API, its number where it has none here."""
    known = APIS.get(key)
    return known.name if known else str(key)


def error_name(code: int) -> str:
    """The name of an error code, its number where it has none here."""
    return ErrorCode(code).name if code in set(ErrorCode) else str(code)


def _requests(node: Node, sampled: SampledState) -> Iterator[Sample]:
    for key, histogram in sorted(node.statistics.request_latency_ms.items()):
        yield (api_name(key),), sum(histogram.counts)


def _request_latency(node: Node, sampled: SampledState) -> Iterator[Sample]:
    for key, histogram in sorted(node.statistics.request_latency_ms.items()):
        yield (api_name(key),), histogram


def _errors(node: Node, sampled: SampledState) -> Iterator[Sample]:
    for (key, code), count in sorted(node.statistics.error_answers.items()):
        yield (api_name(key), error_name(code)), count


def _build(node: Node, sampled: SampledState) -> Iterator[Sample]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield (__version__, python, str(node.settings.node_id), node.cluster_id or ""), 1


METRICS: tuple[NodeMetric, ...] = (
    NodeMetric(
        "quorumd_raft_current_state",
        "gauge",
        "1 for the state this node is in, 0 for all others.",
        _current_state,
        ("state",),
        ("current-state", "State"),
    ),
    NodeMetric(
        "quorumd_raft_current_leader",
        "gauge",
        "Id of the leader, -1 while unknown.",
        single(lambda node: node.engine.leader_id),
        kip=("current-leader", "CurrentLeader"),
    ),
    NodeMetric(
        "quorumd_raft_current_vote",
        "gauge",
        "Id of the node voted for in this epoch, -1 for none.",
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
        "Records below this offset are committed, -1 while unknown.",
        single(lambda node: node.engine.high_watermark),
        kip=("high-watermark",),
    ),
    NodeMetric(
        "quorumd_raft_log_start_offset",
        "gauge",
        "First offset of the own log; what was before is in a snapshot.",
        single(lambda node: node.log.start_offset),
    ),
    NodeMetric(
        "quorumd_raft_log_end_offset",
        "gauge",
        "Offset that the next record of the own log gets.",
        single(lambda node: node.log.end_offset),
        kip=("log-end-offset", "LogEndOffset"),
    ),
    NodeMetric(
        "quorumd_raft_log_end_epoch",
        "gauge",
        "Epoch of the last record of the own log.",
        single(lambda node: node.log.last_epoch),
        kip=("log-end-epoch", "LogEndEpoch"),
    ),
    NodeMetric(
        "quorumd_raft_boot_timestamp_seconds",
        "gauge",
        "Unix time at which this node started, never smaller than before.",
        single(lambda node: node.boot_timestamp / 1000),
        kip=("boot-timestamp", "BootTimestamp"),
    ),
    NodeMetric(
        "quorumd_raft_voters",
        "gauge",
        "Voters of the newest voter set in the own log.",
        single(lambda node: len(node.engine.voters.current.voters)),
        kip=("number-of-voters", "NumQuorumVoters"),
    ),
    NodeMetric(
        "quorumd_raft_observers",
        "gauge",
        "Leader: replicas that fetch and do not vote; 0 elsewhere.",
        lambda node, sampled: [((), sampled.observers)],
        kip=("number-of-observers",),
    ),
    NodeMetric(
        "quorumd_raft_uncommitted_voter_change",
        "gauge",
        "Leader: 1 while the newest voter record is not committed; 0 elsewhere.",
        single(lambda node: float(node.engine.has_uncommitted_voters)),
        kip=("uncommitted-voter-change",),
    ),
    NodeMetric(
        "quorumd_raft_unknown_voter_connections",
        "gauge",
        "Voters whose address is not known.",
        single(lambda node: node.unknown_voter_connections),
        kip=("number-unknown-voter-connections",),
    ),
    NodeMetric(
        "quorumd_raft_commit_latency_seconds",
        "histogram",
        "Leader: time from the append of a record to the high watermark passing it.",
        single(lambda node: node.statistics.commit_latency_ms),
        kip=("commit-latency-avg", "ReplicationLatencyAvg"),
    ),
    NodeMetric(
        "quorumd_raft_commit_latency_max_seconds",
        "gauge",
        "The longest commit latency since the node started.",
        single(lambda node: node.statistics.commit_latency_ms.maximum / 1000),
        kip=("commit-latency-max", "ReplicationLatencyMax"),
    ),
    NodeMetric(
        "quorumd_raft_election_latency_seconds",
        "histogram",
        "Voter: time from asking for votes to knowing a leader.",
        single(lambda node: node.statistics.election_latency_ms),
        kip=("election-latency-avg", "ElectionLatencyAvg"),
    ),
    NodeMetric(
        "quorumd_raft_election_latency_max_seconds",
        "gauge",
        "The longest election latency since the node started.",
        single(lambda node: node.statistics.election_latency_ms.maximum / 1000),
        kip=("election-latency-max", "ElectionLatencyMax"),
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
        "Time of one flush of the log to disk.",
        single(lambda node: node.statistics.flush_latency_ms),
    ),
    NodeMetric(
        "quorumd_log_writable",
        "gauge",
        "0 from a full disk on until the log takes records again.",
        single(lambda node: node.log.has_room()),
    ),
    NodeMetric(
        "quorumd_snapshot_end_offset",
        "gauge",
        "Where the newest snapshot here ends, 0 for none.",
        single(lambda node: node.statistics.snapshot_end_offset),
    ),
    NodeMetric(
        "quorumd_snapshot_size_bytes",
        "gauge",
        "Size of the newest snapshot here.",
        single(lambda node: node.statistics.snapshot_bytes),
        kip=("LatestSnapshotGeneratedBytes",),
    ),
    NodeMetric(
        "quorumd_snapshot_timestamp_seconds",
        "gauge",
        "Unix time of the last record in the newest snapshot here, 0 for none: `time() -` it is its age.",
        single(lambda node: node.statistics.snapshot_timestamp_ms / 1000),
        kip=("LatestSnapshotGeneratedAgeMs",),
    ),
    NodeMetric(
        "quorumd_snapshot_builds",
        "counter",
        "Snapshots that this node built.",
        single(lambda node: node.statistics.snapshots_built),
    ),
    NodeMetric(
        "quorumd_snapshot_build_failures",
        "counter",
        "Snapshots that this node failed to build; the log says why.",
        single(lambda node: node.statistics.snapshots_failed),
    ),
    NodeMetric(
        "quorumd_snapshot_build_seconds",
        "histogram",
        "Time in which this node built a snapshot, beside its other work.",
        single(lambda node: node.statistics.snapshot_build_ms),
    ),
    *CONTROLLER_METRICS,
    NodeMetric(
        "quorumd_event_loop_idle_ratio",
        "gauge",
        "Share of the last second in which the event thread used no CPU; waiting for a disk counts as idle.",
        lambda node, sampled: [((), sampled.idle_ratio)],
        kip=("poll-idle-ratio-avg", "AvgIdlePercent"),
    ),
    NodeMetric(
        "quorumd_event_loop_delay_seconds",
        "histogram",
        "How late the event thread came to what was due, looked at once a second.",
        lambda node, sampled: [((), sampled.loop_delay_ms)],
        kip=("EventQueueTimeMs",),
    ),
    NodeMetric(
        "quorumd_event_processing_seconds",
        "histogram",
        "Time in which the event thread handled what one connection brought, or the end of a flush.",
        single(lambda node: node.statistics.event_processing_ms),
        kip=("EventQueueProcessingTimeMs",),
    ),
    NodeMetric(
        "quorumd_requests",
        "counter",
        "Requests answered.",
        _requests,
        ("api",),
        ("InboundRequestPerSec",),
    ),
    NodeMetric(
        "quorumd_request_latency_seconds",
        "histogram",
        "Time from the arrival of a request to its answer being queued, long polls included.",
        _request_latency,
        ("api",),
        ("TotalTimeMs", "HandleTimeMs"),
    ),
    NodeMetric(
        "quorumd_request_errors",
        "counter",
        "Errors in answers to peers and clients.",
        _errors,
        ("api", "error"),
        ("ErrorResponsePerSec",),
    ),
    NodeMetric(
        "quorumd_connections",
        "gauge",
        "Accepted connections that are open.",
        single(lambda node: node.statistics.connections_open),
    ),
    NodeMetric(
        "quorumd_connections_refused",
        "counter",
        "Connections turned away by max.connections or max.connections.per.ip.",
        single(lambda node: node.statistics.connections_refused),
    ),
    NodeMetric(
        "quorumd_malformed_frames",
        "counter",
        "Frames that were no valid request; each closed its connection.",
        single(lambda node: node.statistics.malformed_frames),
    ),
    NodeMetric(
        "quorumd_build_info",
        "gauge",
        "1, with what runs here.",
        _build,
        ("version", "python", "node_id", "cluster_id"),
    ),
)

NOT_MEASURED = {
    "InboundChannelSize": "requests are handled as they arrive; there is no queue",
    "InboundQueueTimeMs": "requests are handled as they arrive; there is no queue",
    "OutboundChannelSize": "answers go to the socket at the end of the turn; there is no queue",
    "OutboundQueueTimeMs": "answers go to the socket at the end of the turn; there is no queue",
    "OutboundRequestPerSec": "what is sent here is counted where it arrives",
    "ignored-static-voters": "quorum.voters is always ignored once the log has voters",
}
"""Metrics of the KIP's drafts and of Kafka that make no sense here, and why."""


class NodeCollector(Collector):
    """Reads METRICS of one node."""

    def __init__(self, node: Node, sampled: SampledState) -> None:
        self._node = node
        self._sampled = sampled

    def describe(self) -> Iterable[Metric]:
        # Asked at registration, when the node may not have started: nothing to compare names with.
        return ()

    def collect(self) -> Iterator[Metric]:
        for metric in METRICS:
            yield metric.collect(self._node, self._sampled)


def build_registry(node: Node, sampled: SampledState) -> CollectorRegistry:
    """What /metrics shows: the node, and its process (`process_*`: memory, CPU, file descriptors)."""
    registry = CollectorRegistry()
    registry.register(NodeCollector(node, sampled))
    ProcessCollector(registry=registry)
    return registry


def documentation() -> str:
    """METRICS as a Markdown table."""
    lines = ["| metric | type | labels | meaning | in KIP-595 and after |", "|---|---|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(metric.labels)
        kip = ", ".join(metric.kip)
        lines.append(f"| `{metric.exposed_name}` | {metric.kind} | {labels} | {metric.help} | {kip} |")
    return "\n".join(lines) + "\n"
