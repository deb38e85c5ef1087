"""Which broker was heard of when, and what it said: the leader's own knowledge, which is not in the log.

A new leader gives every broker a whole session: it cannot know when the one before it heard of them.
"""

from __future__ import annotations

from collections.abc import Iterable


class BrokerSession:
    """Since when a broker was not heard of, how far its metadata is, and where the drain of it ends in the log."""

    __slots__ = ("contact_ms", "drained_at", "metadata_offset")

    def __init__(self, contact_ms: float) -> None:
        self.contact_ms = contact_ms
        self.metadata_offset = -1
        self.drained_at = -1


class BrokerSessions:
    """Sessions by broker id. Times in milliseconds of one monotonic clock."""

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self._sessions: dict[int, BrokerSession] = {}

    def begin(self, broker_ids: Iterable[int], now_ms: float) -> None:
        """This node leads from now on, and these brokers are not fenced."""
        self._sessions = {broker_id: BrokerSession(now_ms) for broker_id in broker_ids}

    def registered(self, broker_id: int, now_ms: float) -> None:
        """A new incarnation: nothing is known of it."""
        self._sessions[broker_id] = BrokerSession(now_ms)

    def forget(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def get(self, broker_id: int) -> BrokerSession | None:
        return self._sessions.get(broker_id)

    def heard(self, broker_id: int, metadata_offset: int, now_ms: float) -> None:
        session = self._sessions.get(broker_id)
        if session is None:
            session = self._sessions[broker_id] = BrokerSession(now_ms)
        session.contact_ms = now_ms
        session.metadata_offset = max(session.metadata_offset, metadata_offset)

    def is_alive(self, broker_id: int, now_ms: float) -> bool:
        """Whether the session is still valid."""
        session = self._sessions.get(broker_id)
        return session is not None and now_ms < session.contact_ms + self.timeout_ms

    def expired(self, now_ms: float) -> list[int]:
        """Broker ids whose session ended, the oldest contact first."""
        ended = [
            (session.contact_ms, broker_id)
            for broker_id, session in self._sessions.items()
            if now_ms >= session.contact_ms + self.timeout_ms
        ]
        return [broker_id for _, broker_id in sorted(ended)]
