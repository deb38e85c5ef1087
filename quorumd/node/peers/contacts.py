"""Records which peers respond, and logs one line when a peer stops responding and one when it responds again."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from quorumd.node.readiness import SilentPeer, format_duration

logger = logging.getLogger("quorumd.peers")


@dataclass(slots=True)
class _Silence:
    since_ms: float
    reason: str


class PeerContacts:
    """The result of the last request to each peer. Times are monotonic milliseconds."""

    def __init__(self) -> None:
        self._silent: dict[int, _Silence] = {}

    def responded(self, node_id: int, now: float) -> None:
        """Record a response or a request of a peer."""
        silence = self._silent.pop(node_id, None)
        if silence is not None:
            logger.info("node %d responds again after %s", node_id, format_duration(now - silence.since_ms))

    def failed(self, node_id: int, reason: str, now: float) -> None:
        """Record that a request to a peer got no response."""
        silence = self._silent.get(node_id)
        if silence is None:
            self._silent[node_id] = _Silence(now, reason)
            logger.warning("node %d does not respond (%s)", node_id, reason)
        else:
            silence.reason = reason

    def silent(self, among: Collection[int], now: float) -> tuple[SilentPeer, ...]:
        """The nodes in `among` that do not respond, by id."""
        return tuple(
            SilentPeer(node_id, now - silence.since_ms, silence.reason)
            for node_id, silence in sorted(self._silent.items())
            if node_id in among
        )
