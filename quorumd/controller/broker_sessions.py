"""Sessions of brokers: when the leader last received a heartbeat from each, and what it reported. Not in the log.

A new leader starts a full session for every unfenced broker: it cannot know when the previous leader received
heartbeats.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorumd.controller.broker import Broker


class BrokerSession:
    """The session of one broker incarnation.

    `contact_ms`: time of the last heartbeat or repeated registration. `metadata_offset`: last offset that the broker
    has applied, -1 if not reported. `wants_shutdown`: whether the last heartbeat requested a controlled shutdown.
    `controlled_shutdown_offset`: offset that the other brokers must reach before a broker in controlled shutdown may
    stop, -1 if unknown. `elections_checked`: whether the broker was elected for every leaderless partition that it
    may lead.
    """

    __slots__ = (
        "contact_ms",
        "controlled_shutdown_offset",
        "elections_checked",
        "epoch",
        "metadata_offset",
        "wants_shutdown",
    )

    def __init__(self, epoch: int, contact_ms: float) -> None:
        self.epoch = epoch
        self.contact_ms = contact_ms
        self.metadata_offset = -1
        self.wants_shutdown = False
        self.controlled_shutdown_offset = -1
        self.elections_checked = False


class BrokerSessions:
    """Sessions by broker id. Times are milliseconds of one monotonic clock."""

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self._sessions: dict[int, BrokerSession] = {}

    def begin(self, brokers: Iterable[Broker], now_ms: float) -> None:
        """Start the sessions of these brokers, the unfenced ones, when this node becomes the leader."""
        self._sessions = {broker.id: BrokerSession(broker.epoch, now_ms) for broker in brokers}

    def get(self, broker_id: int) -> BrokerSession | None:
        return self._sessions.get(broker_id)

    def touch(self, broker_id: int, epoch: int, metadata_offset: int, now_ms: float) -> BrokerSession:
        """Record a heartbeat and return the session, a new one for a new incarnation."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            session = self._sessions[broker_id] = BrokerSession(epoch, now_ms)
        session.contact_ms = now_ms
        session.metadata_offset = max(session.metadata_offset, metadata_offset)
        return session

    def extend_all(self, duration_ms: float) -> None:
        """Extend every session by a time in which this node was paused and received no heartbeats."""
        for session in self._sessions.values():
            session.contact_ms += duration_ms

    def with_unchecked_elections(self) -> list[tuple[int, BrokerSession]]:
        """Return the sessions without `elections_checked`, with the ids of their brokers."""
        return [entry for entry in self._sessions.items() if not entry[1].elections_checked]

    def is_alive(self, broker_id: int, now_ms: float) -> bool:
        """Whether the broker's session has not expired."""
        session = self._sessions.get(broker_id)
        return session is not None and now_ms < session.contact_ms + self.timeout_ms

    def expired(self, now_ms: float) -> list[int]:
        """Return the ids of the brokers whose session has expired, the one silent the longest first."""
        ended = [
            (session.contact_ms, broker_id)
            for broker_id, session in self._sessions.items()
            if now_ms >= session.contact_ms + self.timeout_ms
        ]
        return [broker_id for _, broker_id in sorted(ended)]
