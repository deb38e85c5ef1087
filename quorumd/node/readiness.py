"""Readiness of a node: one pure decision for /readyz, systemd and `quorumd status`.

A node is ready if all of this holds:

    * Contact. A leader: a majority of the voters has fetched within the fetch timeout. Any other node: its leader has
      responded to a fetch that was sent within the fetch timeout and one long poll. A leader without fetches from a
      majority resigns after 1.5 fetch timeouts and then responds to no fetch, so a ready node had a leader with a
      majority at most three fetch timeouts ago.
    * State. No snapshot is being loaded, and all records known to be committed at the start are applied. The
      leader's high watermark is known, and at most `max_lag` records below it are not applied.
    * Membership. The node is part of a quorum, and has a vote if the configuration or the voters in the log name it.
    * Broker. With the broker role: it is registered and unfenced, and serves clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from quorumd.broker.controller_requests.lifecycle import BrokerState
from quorumd.ids import NO_NODE

MAX_LAG = 10_000
"""Records. Creating the largest topics takes one commit of this size, which leaves every node ready."""


class SilentPeer(NamedTuple):
    """Another node that does not respond."""

    node_id: int
    silent_ms: float
    reason: str
    """The address that was tried, and the outcome."""

    @property
    def text(self) -> str:
        return f"node {self.node_id} has not responded for {format_duration(self.silent_ms)} ({self.reason})"


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """The state of one node and its view of the quorum. Unknown offsets are -1."""

    node_id: int
    role: str
    """The role as the metric `current-state` names it."""
    epoch: int
    leader_id: int
    contact_ms: float
    """Leader: time since a majority of the voters fetched. Others: time since they sent the last fetch that got a
    response. inf if there was none."""
    contact_limit_ms: float
    high_watermark: int
    """The leader's high watermark as far as this node knows."""
    applied_offset: int
    max_lag: int
    is_voter: bool
    is_configured_voter: bool
    """Whether quorum.voters names this node."""
    is_joining: bool = False
    """Whether the node joins the voters automatically and is not a voter yet."""
    loaded_records: int = -1
    """Records loaded so far from a snapshot; -1 if none is being loaded."""
    replay_end: int = 0
    """All records below this offset were known to be committed when the node started."""
    silent_peers: tuple[SilentPeer, ...] = ()
    founding_obstacle: str | None = None
    """Why this node is not part of a quorum, and the remedy; None if it is part of one."""
    is_stopping: bool = False
    broker_state: BrokerState | None = None
    """None without the broker role."""

    @property
    def is_leader(self) -> bool:
        return self.role == "leader"

    @property
    def summary(self) -> str:
        """Role, epoch and leader in one readable line."""
        if self.is_leader:
            return f"leader of epoch {self.epoch}"
        leader = f"leader is node {self.leader_id}" if self.leader_id != NO_NODE else "no leader known"
        return f"{self.role} in epoch {self.epoch}, {leader}"


class Readiness(NamedTuple):
    """Whether a node is ready."""

    reasons: tuple[str, ...]
    """Why the node is not ready; empty if it is."""

    @property
    def is_ready(self) -> bool:
        return not self.reasons


def readiness(node_status: NodeStatus) -> Readiness:
    """Return why a node is not ready, each reason with its remedy if an operator has to act."""
    reasons = (
        _shutdown_reason(node_status),
        _contact_reason(node_status),
        _membership_reason(node_status),
        _state_reason(node_status),
        _broker_reason(node_status),
    )
    return Readiness(tuple(text for text in reasons if text is not None))


def report(node_status: NodeStatus) -> str:
    """Format the decision: ready or not in the first line, then the reasons and the peers that do not respond."""
    decision = readiness(node_status)
    first = f"{'ready' if decision.is_ready else 'not ready'}: {node_status.summary}"
    return "\n".join([first, *decision.reasons, *(peer.text for peer in node_status.silent_peers)])


def format_duration(milliseconds: float) -> str:
    """Format a duration for display: `40 ms`, `2.3 s`, `75 s`."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 10_000 else f"{milliseconds / 1000:,.0f} s"


def _shutdown_reason(node_status: NodeStatus) -> str | None:
    return "the node is shutting down" if node_status.is_stopping else None


def _contact_reason(node_status: NodeStatus) -> str | None:
    if node_status.contact_ms <= node_status.contact_limit_ms:
        return None
    if node_status.is_leader:
        return f"no majority of the voters has fetched for {format_duration(node_status.contact_ms)}"
    if node_status.leader_id == NO_NODE:
        return "no leader is known" if node_status.founding_obstacle is None else None
    if node_status.contact_ms == inf:
        return f"node {node_status.leader_id}, the leader known last, has not served a fetch"
    silence = format_duration(node_status.contact_ms)
    return f"node {node_status.leader_id}, the leader, has not served a fetch for {silence}"


def _membership_reason(node_status: NodeStatus) -> str | None:
    if node_status.founding_obstacle is not None:
        return node_status.founding_obstacle
    if node_status.is_joining:
        return f"node {node_status.node_id} has no vote yet and requests one (controller.quorum.auto.join.enable)"
    if node_status.is_configured_voter and not node_status.is_voter:
        return (
            f"quorum.voters names node {node_status.node_id}, which has no vote; give it one with "
            "`quorumd quorum alter --voters`, or remove quorum.voters from its properties"
        )
    return None


def _state_reason(node_status: NodeStatus) -> str | None:
    if node_status.loaded_records >= 0:
        return f"a snapshot is being loaded, {node_status.loaded_records:,} records so far"
    if node_status.applied_offset < node_status.replay_end:
        left = node_status.replay_end - node_status.applied_offset
        return f"{left:,} records that were known to be committed at the start are not applied yet"
    if node_status.high_watermark < 0:
        return "the high watermark is not known"
    lag = node_status.high_watermark - node_status.applied_offset
    if lag > node_status.max_lag:
        return f"{lag:,} of {node_status.high_watermark:,} committed records are not applied yet"
    return None


def _broker_reason(node_status: NodeStatus) -> str | None:
    if node_status.is_stopping or node_status.broker_state in (None, BrokerState.RUNNING):
        return None
    if node_status.broker_state is BrokerState.STARTING:
        return "the broker is not registered yet, or behind its registration in the metadata log"
    if node_status.broker_state is BrokerState.RECOVERY:
        return "the broker recovers its logs, or the controller has not unfenced it yet"
    return "the broker has stopped"
