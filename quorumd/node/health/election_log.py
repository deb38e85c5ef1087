"""Logs changes of role and leader: one line each, and summaries at growing intervals while there is no leader."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from quorumd.ids import NO_NODE
from quorumd.node.readiness import NodeStatus, format_duration

logger = logging.getLogger("quorumd.node")

FIRST_SUMMARY_DELAY_MS = 5000.0
MAX_INTERVAL_MS = 300_000.0


class ElectionLog:
    """Logs the node's role, epoch and leader after each change. Times are monotonic milliseconds."""

    def __init__(self) -> None:
        self._leader: tuple[int, int] | None = None
        """Epoch and leader logged last; None after the line that the leader is not known."""
        self.leaders = 0
        """Number of leaders, one per epoch, that this node has known."""
        self._newest: tuple[int, int] | None = None
        self._previous_leader: tuple[int, int] | None = None
        """Epoch and leader before the current search for a leader."""
        self._searching_since: float | None = None
        self._campaigns = 0
        self._interval_ms = FIRST_SUMMARY_DELAY_MS
        self._next_summary = 0.0

    def changed(self, role: str, epoch: int, leader_id: int, now: float) -> None:
        """Log a change of role, epoch or leader."""
        if role == "prospective":
            self._campaigns += 1
        leader = (epoch, leader_id)
        if leader_id != NO_NODE and leader != self._newest:
            self._newest = leader
            self.leaders += 1
        if leader_id == NO_NODE:
            self._leader_lost(role, epoch, now)
        elif leader != self._previous_leader:
            self._leader_found(role, epoch, leader_id, now)

    def check(self, node_status: NodeStatus, now: float) -> None:
        """Log that the leader was found again, or a summary of a long search. Called once per second."""
        if self._searching_since is None:
            return
        if node_status.leader_id != NO_NODE and node_status.contact_ms <= node_status.contact_limit_ms:
            self._leader_found(node_status.role, node_status.epoch, node_status.leader_id, now)
        elif now >= self._next_summary:
            self._interval_ms = min(2 * self._interval_ms, MAX_INTERVAL_MS)
            self._next_summary = now + self._interval_ms
            logger.warning(
                "no leader for %s: %s in epoch %d, %d campaigns without success%s",
                format_duration(now - self._searching_since),
                node_status.role,
                node_status.epoch,
                self._campaigns,
                _silent_peers_text([peer.node_id for peer in node_status.silent_peers]),
            )

    def _leader_lost(self, role: str, epoch: int, now: float) -> None:
        if self._searching_since is not None:
            return
        self._searching_since, self._previous_leader, self._leader = now, self._leader, None
        self._campaigns = int(role == "prospective")
        self._interval_ms = FIRST_SUMMARY_DELAY_MS
        self._next_summary = now + FIRST_SUMMARY_DELAY_MS
        logger.info("%s in epoch %d, leader not known", role, epoch)

    def _leader_found(self, role: str, epoch: int, leader_id: int, now: float) -> None:
        after = ""
        if self._searching_since is not None:
            after = f", after {format_duration(now - self._searching_since)} without a leader"
        self._searching_since, self._previous_leader, self._leader = None, None, (epoch, leader_id)
        logger.info("%s in epoch %d, leader %d%s", role, epoch, leader_id, after)


def _silent_peers_text(node_ids: Sequence[int]) -> str:
    if not node_ids:
        return ""
    one = len(node_ids) == 1
    return f"; node{'' if one else 's'} {', '.join(map(str, node_ids))} {'does' if one else 'do'} not respond"
