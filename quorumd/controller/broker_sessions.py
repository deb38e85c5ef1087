"""Which broker was heard of when, and what it said: the leader's own knowledge, which is not in the log.

A new leader gives every broker a whole session: it cannot know when the one before it heard of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorumd.controller.broker import Broker


class BrokerSession:
    """Of one start of a broker: when it was heard of last, how far its metadata is (offset of the last record, -1 if
    it did not say), and since it drains, which offset others must have for it to stop (-1: not known).

    `elections_checked`: since it is not fenced, it was seen that it leads wherever nobody else does and it may.
    """

    __slots__ = ("contact_ms", "controlled_shutdown_offset", "elections_checked", "epoch", "metadata_offset")

    def __init__(self, epoch: int, contact_ms: float) -> None:
        self.epoch = epoch
        self.contact_ms = contact_ms
        self.metadata_offset = -1
        self.controlled_shutdown_offset = -1
        self.elections_checked = False


class BrokerSessions:
    """Sessions by broker id. Times in milliseconds of one monotonic clock."""

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self._sessions: dict[int, BrokerSession] = {}

    def begin(self, brokers: Iterable[Broker], now_ms: float) -> None:
        """Start the sessions of all unfenced brokers when this node becomes the leader."""
        self._sessions = {broker.id: BrokerSession(broker.epoch, now_ms) for broker in brokers}

    def get(self, broker_id: int) -> BrokerSession | None:
        return self._sessions.get(broker_id)

    def touch(self, broker_id: int, epoch: int, metadata_offset: int, now_ms: float) -> BrokerSession:
        """The broker said something. Of another start of it than before nothing else is known."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            session = self._sessions[broker_id] = BrokerSession(epoch, now_ms)
        session.contact_ms = now_ms
        if metadata_offset > session.metadata_offset:
            session.metadata_offset = metadata_offset
        return session

    def extend_all(self, duration_ms: float) -> None:
        """Extend every session by a time in which this node was paused and received no heartbeats."""
        for session in self._sessions.values():
            session.contact_ms += duration_ms

    def with_unchecked_elections(self) -> list[tuple[int, BrokerSession]]:
        """Sessions that are not settled, with the ids of their brokers."""
        return [entry for entry in self._sessions.items() if not entry[1].elections_checked]

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
