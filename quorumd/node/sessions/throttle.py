"""Throttling of one accepted connection (KIP-124, KIP-219).

A client that exceeds its quota gets its response at once, with the throttle time; for that time its connection is
muted and its queued requests wait. For `request_percentage` the event thread counts as one of Kafka's request
threads: all of its time is 100.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorumd.ports import Clock
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.fetch_request import FetchRequest
from quorumd.protocol.routes import Session
from quorumd.protocol.throttle_time import read_throttle_ms, write_throttle_ms
from quorumd.protocol.wire import Message
from quorumd.quotas.client_quotas import ClientQuotas
from quorumd.quotas.entities import PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE

EXEMPT: Final = frozenset(
    {
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.ENVELOPE,
        ApiKey.ALTER_PARTITION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.FETCH_QUORUM_RECORDS,
        ApiKey.DISCOVER_BROKERS,
    }
)
"""Requests of nodes and brokers, to which no quota applies. Fetches of followers are exempt too."""
PERCENT_PER_MS: Final = 0.1
"""One millisecond is 0.1 % of a second."""


def is_exempt(request: Request[Message]) -> bool:
    """Whether no quota applies to a request."""
    message = request.message
    if isinstance(message, FetchRequest):
        return message.replica_id >= 0 or message.replica_state.replica_id >= 0
    return request.api_key in EXEMPT


class Throttle:
    """The quotas of one connection."""

    __slots__ = ("_clock", "_counts", "_handled", "_quotas", "_since_ms", "until_ms")

    def __init__(self, quotas: ClientQuotas, clock: Clock) -> None:
        self.until_ms = 0.0
        """The end of the throttle time."""
        self._quotas = quotas
        self._clock = clock
        self._handled: Request[Message] | None = None
        """The request whose handler runs."""
        self._counts = True
        """Whether the end of this work counts the request as throttled: slices count with their response."""
        self._since_ms = 0.0

    @property
    def is_enabled(self) -> bool:
        """Whether there is any quota, so that requests have to be counted."""
        return len(self._quotas.quotas()) > 0

    @property
    def remaining_ms(self) -> int:
        """The remaining throttle time of the connection, rounded up."""
        return max(0, int(-((self._clock.now_ms() - self.until_ms) // 1)))

    def connected(self, host: str) -> int:
        """Count a new connection. If the returned time is above 0, close the connection after that time."""
        return self._quotas.connected(host, self._clock.now_ms())

    def begin(self, session: Session, request: Request[Message]) -> None:
        """Begin to handle a request."""
        self._handled = None
        if is_exempt(request):
            return
        self._handled, self._since_ms, self._counts = request, self._clock.now_ms(), True
        if request.api_key == ApiKey.PRODUCE:
            self._record(session, request, PRODUCER_BYTE_RATE, len(request.frame))

    def resume(self, request: Request[Message]) -> None:
        """Continue to handle a request."""
        self._handled = None if is_exempt(request) else request
        self._since_ms, self._counts = self._clock.now_ms(), False

    def end(self, session: Session) -> None:
        """End the handling of the request that `begin` or `resume` recorded."""
        if self._handled is not None:
            self._count_time(session, self._handled, self._counts)
            self._handled = None

    def apply(self, session: Session, request: Request[Message], message: Message) -> None:
        """Set the throttle time of a response; its handler may have set one for a quota that it checked."""
        own_ms = getattr(message, "throttle_time_ms", None)
        if own_ms is not None and not is_exempt(request):
            setattr(message, "throttle_time_ms", self._finalize(session, request, own_ms))  # noqa: B010 - not declared

    def apply_encoded(self, session: Session, request: Request[Message], response: bytes) -> bytes:
        """As `apply`, for a response that is already encoded, for example by the leader."""
        own_ms = read_throttle_ms(request.api_key, request.api_version, response)
        if own_ms is None or is_exempt(request):
            return response
        throttle_ms = self._finalize(session, request, own_ms)
        if throttle_ms == own_ms:
            return response
        return write_throttle_ms(request.api_key, request.api_version, response, throttle_ms)

    def _finalize(self, session: Session, request: Request[Message], own_ms: int) -> int:
        """Count what the request has used so far, and return the throttle time of its response."""
        self._extend(own_ms)
        if request is self._handled:
            self._count_time(session, request, True)
        return self.remaining_ms

    def _count_time(self, session: Session, request: Request[Message], counts: bool) -> None:
        now_ms = self._clock.now_ms()
        spent_ms, self._since_ms = now_ms - self._since_ms, now_ms
        self._record(session, request, REQUEST_PERCENTAGE, spent_ms * PERCENT_PER_MS, counts)

    def _record(
        self, session: Session, request: Request[Message], key: str, value: float, counts: bool = True
    ) -> None:
        principal, now_ms = session.origin.principal, self._clock.now_ms()
        self._extend(self._quotas.record(key, principal, request.client_id, value, now_ms, counts))

    def _extend(self, throttle_ms: int) -> None:
        if throttle_ms > 0:
            self.until_ms = max(self.until_ms, self._clock.now_ms() + throttle_ms)


class RequestPayer:
    """Counts the time of a request. `mute` stops reading from its connection while it is throttled."""

    __slots__ = ("_mute", "_request", "_session", "_throttle")

    def __init__(
        self, throttle: Throttle, session: Session, request: Request[Message], mute: Callable[[], None]
    ) -> None:
        self._throttle = throttle
        self._session = session
        self._request = request
        self._mute = mute

    def resume(self) -> None:
        """See `Payer`."""
        self._throttle.resume(self._request)

    def pause(self) -> None:
        """See `Payer`."""
        self._throttle.end(self._session)
        self._mute()
