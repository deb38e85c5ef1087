"""Logs the voters that stop fetching from a leader, and the voters that fetch again."""

from __future__ import annotations

import logging

from quorumd.node.readiness import format_duration
from quorumd.raft.engine import RaftEngine

logger = logging.getLogger("quorumd.node")


class FollowerLog:
    """Follows the fetches of voters while this node leads. Times are monotonic milliseconds."""

    def __init__(self, engine: RaftEngine) -> None:
        self._engine = engine
        self._elected_ms = 0.0
        """The time of this node's last election."""
        self._lagging: dict[int, float] = {}
        """Node id -> time of its last fetch, or of the election if that is later."""

    def leadership_changed(self, now: float) -> None:
        """Handle a change of role, epoch or leader."""
        if self._engine.is_leader:
            self._elected_ms = now
            self._lagging.clear()

    def check(self, now: float) -> None:
        """As leader, log the voters that have stopped fetching or fetch again since the last check."""
        engine = self._engine
        if not engine.is_leader:
            return
        limit_ms, end_offset = engine.contact_limit_ms, engine.high_watermark
        for voter in engine.describe(now).voters:
            node_id, age_ms = voter.key.id, voter.last_fetch_ms_ago
            age_ms = min(age_ms, now - self._elected_ms)
            if age_ms > limit_ms and node_id not in self._lagging:
                self._lagging[node_id] = now - age_ms
                behind = max(0, end_offset - max(0, voter.log_end_offset))
                logger.warning(
                    "follower %d has not fetched for %s; it lacks %d records",
                    node_id,
                    format_duration(age_ms),
                    behind,
                )
            elif age_ms <= limit_ms and node_id in self._lagging:
                since = self._lagging.pop(node_id)
                logger.info("follower %d fetches again after %s", node_id, format_duration(now - since))
