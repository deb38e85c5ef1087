"""Registration, heartbeats and controlled shutdown of a broker (KIP-631, KIP-903)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final, Protocol

from quorumd.controller.metadata_versions import SUPPORTED_FEATURES, SupportedFeature
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages import (
    broker_heartbeat_request,
    broker_heartbeat_response,
    broker_registration_request,
    broker_registration_response,
)
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.metadata import Leader
from quorumd.simulator.brokers.request_channel import Address, Channel
from quorumd.simulator.environment.event_heap import EventHeap, Process

REGISTRATION_VERSION: Final = 3
HEARTBEAT_VERSION: Final = 1
CORDONS_VERSION: Final = 2
"""The version of BrokerHeartbeat that reports cordoned directories (KIP-1066)."""
RETRY_MS: Final = 100.0
STARTING_HEARTBEAT_MS: Final = 30.0
"""Interval of heartbeats until a broker is unfenced, and while it waits to shut down."""
PLAINTEXT: Final = 0


class State(Enum):
    """The state of a broker as it knows it itself."""

    STARTING = auto()
    """Not registered, or not caught up with the metadata."""
    RECOVERED = auto()
    """Requests to be unfenced."""
    RUNNING = auto()
    SHUTTING_DOWN = auto()
    """In controlled shutdown."""


class LifecycleListener(Protocol):
    """Receives the controller's responses."""

    def registered(self, epoch: int) -> None: ...

    def heartbeat_completed(
        self, request: broker_heartbeat_request.BrokerHeartbeatRequest,
        response: broker_heartbeat_response.BrokerHeartbeatResponse,
    ) -> None: ...  # fmt: skip

    def heartbeat_failed(self, request: broker_heartbeat_request.BrokerHeartbeatRequest) -> None:
        """There was no response; the request may still arrive."""

    def shutdown_granted(self) -> None:
        """The controller has completed the controlled shutdown."""


class Lifecycle:
    """The lifecycle of one broker incarnation.

    `leader()` returns the leader of the quorum, None if it is unknown, and `metadata_end()` the end of the metadata
    that the broker has applied. `is_ready()` is true once the broker acts on the metadata.
    """

    def __init__(
        self,
        registration: broker_registration_request.BrokerRegistrationRequest,
        heap: EventHeap,
        process: Process,
        channel: Channel,
        heartbeat_ms: float,
        leader: Callable[[], Leader | None],
        metadata_end: Callable[[], int],
        is_ready: Callable[[], bool],
        cordoned: Callable[[], list[KafkaUuid] | None],
        lost: Callable[[], list[KafkaUuid]],
        listener: LifecycleListener,
    ) -> None:
        self.state = State.STARTING
        self.epoch = -1
        self.registration = registration
        self._heap = heap
        self._process = process
        self._channel = channel
        self._heartbeat_ms = heartbeat_ms
        self.is_caught_up = False
        """Whether the controller has confirmed that the broker has read its own registration."""
        self.heartbeat_leader: Leader | None = None
        """The leader to which the last heartbeat was sent."""
        self.heartbeat_sent_ms = 0.0
        self._leader = leader
        self._metadata_end = metadata_end
        self._is_ready = is_ready
        self._cordoned = cordoned
        self._lost = lost
        self._listener = listener

    @property
    def is_waiting(self) -> bool:
        """Whether a request has no response yet."""
        return self._channel.is_waiting

    def begin(self) -> None:
        self._register()

    def shut_down(self) -> None:
        """Request a controlled shutdown with the next heartbeats."""
        self.state = State.SHUTTING_DOWN

    def _later(self, delay_ms: float, what: Callable[[], None]) -> None:
        self._heap.call_later(delay_ms, what, b"lifecycle", self._process)

    def _register(self) -> None:
        leader = self._leader()
        if leader is None:
            self._later(RETRY_MS, self._register)
        else:
            self._channel.send(leader.address, self.registration, REGISTRATION_VERSION, self._registered)

    def _registered(self, message: Message | None) -> None:
        if (
            not isinstance(message, broker_registration_response.BrokerRegistrationResponse)
            or message.error_code != ErrorCode.NONE
        ):
            if getattr(message, "error_code", 0) == ErrorCode.UNSUPPORTED_VERSION:
                # An operator upgrades it to the newest release.
                wire = broker_registration_request
                self.registration.features = [wire.Feature(*known) for known in SUPPORTED_FEATURES]
            self._later(RETRY_MS, self._register)
            return
        self.epoch = message.broker_epoch
        self._listener.registered(self.epoch)
        self._heartbeat()

    def _heartbeat(self) -> None:
        if self.state is State.STARTING and self._is_ready():
            self.state = State.RECOVERED
        leader = self._leader()
        if leader is None:
            self._later(RETRY_MS, self._heartbeat)
            return
        self.heartbeat_leader, self.heartbeat_sent_ms = leader, self._heap.now_ms
        request = broker_heartbeat_request.BrokerHeartbeatRequest(
            self.registration.broker_id,
            self.epoch,
            self._metadata_end() - 1,
            self.state is State.STARTING,
            self.state is State.SHUTTING_DOWN,
            self._lost(),
            cordoned_log_dirs=None if self.state is State.STARTING else self._cordoned(),
        )
        version = HEARTBEAT_VERSION if request.cordoned_log_dirs is None else CORDONS_VERSION
        self._channel.send(
            leader.address, request, version, lambda message: self._on_response(request, message)
        )

    def _on_response(
        self, request: broker_heartbeat_request.BrokerHeartbeatRequest, message: Message | None
    ) -> None:
        if not isinstance(message, broker_heartbeat_response.BrokerHeartbeatResponse) or message.error_code:
            if isinstance(message, broker_heartbeat_response.BrokerHeartbeatResponse):
                self._listener.heartbeat_completed(request, message)
            else:
                self._listener.heartbeat_failed(request)
            self._later(RETRY_MS, self._heartbeat)
            return
        self.is_caught_up |= message.is_caught_up
        self._listener.heartbeat_completed(request, message)
        if self.state is State.SHUTTING_DOWN and message.should_shut_down:
            self._listener.shutdown_granted()
            return
        if self.state is State.RECOVERED and not message.is_fenced:
            self.state = State.RUNNING
        self._later(
            self._heartbeat_ms if self.state is State.RUNNING else STARTING_HEARTBEAT_MS, self._heartbeat
        )


def registration_of(
    broker_id: int,
    cluster_id: str,
    incarnation_id: KafkaUuid,
    address: Address,
    directory_ids: Sequence[KafkaUuid],
    previous_epoch: int,
    rack: str | None,
    features: Sequence[SupportedFeature] = SUPPORTED_FEATURES,
) -> broker_registration_request.BrokerRegistrationRequest:
    """Build the registration of an incarnation. `previous_epoch` is the broker epoch in the clean-shutdown file, -1
    without one."""
    wire = broker_registration_request
    return wire.BrokerRegistrationRequest(
        broker_id,
        cluster_id,
        incarnation_id,
        [wire.Listener("PLAINTEXT", *address, PLAINTEXT)],
        [wire.Feature(*known) for known in features],
        rack,
        False,
        list(directory_ids),
        previous_epoch,
    )
