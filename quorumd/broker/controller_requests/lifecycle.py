"""The lifecycle of one broker incarnation at the active controller: registration, heartbeats, unfencing and
controlled shutdown (KIP-631).

    STARTING        not registered, or behind its own registration in the metadata log: heartbeats request fencing
    RECOVERY        caught up; the logs are recovered, then heartbeats request unfencing
    RUNNING         unfenced: serves clients
    PENDING_CONTROLLED_SHUTDOWN  waits until the controller has moved its leaderships to other brokers
    SHUTTING_DOWN   the controller has granted the shutdown or knows another incarnation, or the wait timed out
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from quorumd.broker.channels.controller_channel import ControllerChannel, NoResponse
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.ports import Clock, Timer
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from quorumd.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from quorumd.protocol.wire import Message

logger = logging.getLogger("quorumd.broker")

STARTING_INTERVAL_MS: Final = 10.0
"""Interval of heartbeats while the broker waits for the controller during startup."""
SHUTDOWN_INTERVAL_MS: Final = 50.0
"""Interval of heartbeats during a controlled shutdown, which may complete at any time."""
FIRST_RETRY_MS: Final = 50.0
CORDONS_SINCE_VERSION: Final = 2


class BrokerState(IntEnum):
    """Kafka's broker states, with the values of its metric `BrokerState`."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """Times are in milliseconds, with Kafka's defaults."""

    heartbeat_interval_ms: float = 2_000.0
    """`broker.heartbeat.interval.ms`."""
    registration_timeout_ms: float = 60_000.0
    """`initial.broker.registration.timeout.ms`: a broker that is not registered by then stops."""
    max_retry_ms: float = 2_000.0
    """The longest wait before a failed request is sent again; the wait doubles with every failure."""
    shutdown_timeout_ms: float = 300_000.0
    """The longest wait for the end of a controlled shutdown."""
    directory_failure_timeout_ms: float = 30_000.0
    """`log.dir.failure.timeout.ms`: a broker that cannot report a failed log directory for this time stops."""


class LifecycleListener(Protocol):
    """Callbacks for state changes."""

    def on_registered(self, broker_epoch: int) -> None:
        """The controller has accepted the incarnation, which is still fenced."""

    def on_caught_up(self) -> None:
        """The broker has applied its own registration: recover the logs, then call `BrokerLifecycle.recovered`."""

    def on_unfenced(self) -> None:
        """The broker is RUNNING: serve clients."""

    def on_shutdown_granted(self) -> None:
        """The controlled shutdown is complete, impossible or has timed out: close the logs and stop."""

    def on_controller_timeout(self, reason: str) -> None:
        """The controller has not accepted the incarnation, or the report of a failed directory, in time: stop."""


class BrokerLifecycle:
    """Registers an incarnation and keeps it alive.

    `registration()` builds the request. `metadata_offset()` returns the last offset of the metadata log that the
    broker has applied, -1 if there is none. `offline_directories()` and `cordoned_directories()` return ids of log
    directories; the latter returns None if the finalized metadata version does not support cordons (KIP-1066).
    """

    def __init__(
        self,
        settings: LifecycleSettings,
        clock: Clock,
        channel: ControllerChannel,
        registration: Callable[[], BrokerRegistrationRequest],
        metadata_offset: Callable[[], int],
        offline_directories: Callable[[], Sequence[KafkaUuid]],
        cordoned_directories: Callable[[], Sequence[KafkaUuid] | None],
        listener: LifecycleListener,
    ) -> None:
        self.state = BrokerState.NOT_RUNNING
        self.epoch = -1
        """The broker epoch, -1 before registration."""
        self._settings = settings
        self._clock = clock
        self._channel = channel
        self._registration = registration
        self._metadata_offset = metadata_offset
        self._offline_directories = offline_directories
        self._cordoned_directories = cordoned_directories
        self._listener = listener
        self._broker_id = -1
        self._registers_until_ms = 0.0
        self._is_recovered = False
        self._retry_ms = FIRST_RETRY_MS
        self._timer: Timer | None = None
        self._shutdown_timer: Timer | None = None
        self._directory_timer: Timer | None = None
        self._reported_directories: list[KafkaUuid] = []
        """The offline directories in the last heartbeat."""

    def start(self) -> None:
        """Begin to register; called once per incarnation."""
        self.state = BrokerState.STARTING
        self._registers_until_ms = self._clock.now_ms() + self._settings.registration_timeout_ms
        self._register()

    def recovered(self) -> None:
        """Request unfencing in the next heartbeats: the logs are recovered and match the metadata."""
        self._is_recovered = True
        self._heartbeat_now()

    def directory_failed(self) -> None:
        """Report another offline directory with an immediate heartbeat."""
        if self._directory_timer is None:
            deadline_ms = self._clock.now_ms() + self._settings.directory_failure_timeout_ms
            self._directory_timer = self._clock.call_at(deadline_ms, self._on_directory_not_reported)
        self._heartbeat_now()

    def cordons_changed(self) -> None:
        """Report a change of the cordoned directories with an immediate heartbeat."""
        self._heartbeat_now()

    def _on_directory_not_reported(self) -> None:
        self._directory_timer = None
        if self.state not in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN):
            self.stop()
            self._listener.on_controller_timeout(
                f"broker {self._broker_id} could not report a failed log directory to the controller"
            )

    def shut_down(self) -> None:
        """Begin the controlled shutdown, which is complete at once if the broker has never been unfenced."""
        if self.state in (BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN):
            return
        if self.state is not BrokerState.RUNNING:
            self._grant_shutdown()
            return
        self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        deadline_ms = self._clock.now_ms() + self._settings.shutdown_timeout_ms
        self._shutdown_timer = self._clock.call_at(deadline_ms, self._grant_shutdown)
        self._heartbeat_now()

    def stop(self) -> None:
        """Stop sending requests."""
        self.state = BrokerState.NOT_RUNNING
        for timer in (self._timer, self._shutdown_timer, self._directory_timer):
            if timer is not None:
                timer.cancel()

    # Registration

    def _register(self) -> None:
        self._timer = None
        if self.state is not BrokerState.STARTING:
            return
        request = self._registration()
        self._broker_id = request.broker_id

        def build(version: int) -> BrokerRegistrationRequest:
            del version
            return request

        self._channel.send(ApiKey.BROKER_REGISTRATION, build, self._on_registration, self._on_no_registration)

    def _on_registration(self, response: Message) -> None:
        assert isinstance(response, BrokerRegistrationResponse)
        if response.error_code != ErrorCode.NONE:
            self._retry_registration(ErrorCode.describe(response.error_code))
            return
        if self.state is not BrokerState.STARTING:
            return
        self.epoch = response.broker_epoch
        self._retry_ms = FIRST_RETRY_MS
        logger.info("broker %d is registered with broker epoch %d", self._broker_id, self.epoch)
        self._listener.on_registered(self.epoch)
        self._heartbeat()

    def _on_no_registration(self, failure: NoResponse) -> None:
        self._retry_registration(failure.reason)

    def _retry_registration(self, reason: str) -> None:
        if self.state is not BrokerState.STARTING:
            return
        if self._clock.now_ms() >= self._registers_until_ms:
            self.stop()
            self._listener.on_controller_timeout(f"broker {self._broker_id} is not registered: {reason}")
            return
        logger.info("broker %d is not registered yet: %s", self._broker_id, reason)
        self._schedule(self._next_retry_ms(), self._register)

    # Heartbeats

    def _heartbeat_now(self) -> None:
        """Send the next heartbeat without waiting, unless a response is pending."""
        if self._timer is not None and self.epoch >= 0:
            self._schedule(0.0, self._heartbeat)

    def _heartbeat(self) -> None:
        self._timer = None
        if self.state in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN):
            return
        state = self.state

        def build(version: int) -> BrokerHeartbeatRequest:
            # A STARTING broker may not have the newest config yet; with None, the controller keeps the last report.
            has_cordons = version >= CORDONS_SINCE_VERSION and state is not BrokerState.STARTING
            cordoned = self._cordoned_directories() if has_cordons else None
            self._reported_directories = list(self._offline_directories())
            return BrokerHeartbeatRequest(
                self._broker_id,
                self.epoch,
                self._metadata_offset(),
                state is BrokerState.STARTING or not self._is_recovered,
                state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
                self._reported_directories,
                None if cordoned is None else list(cordoned),
            )

        self._channel.send(ApiKey.BROKER_HEARTBEAT, build, self._on_heartbeat, self._on_no_heartbeat)

    def _on_heartbeat(self, response: Message) -> None:
        assert isinstance(response, BrokerHeartbeatResponse)
        if response.error_code != ErrorCode.NONE:
            logger.info("heartbeat refused: %s", ErrorCode.describe(response.error_code))
            is_leaving = self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
            if is_leaving and response.error_code == ErrorCode.STALE_BROKER_EPOCH:
                # The epoch remains stale, so no controller can grant the shutdown.
                logger.warning(
                    "broker %d stops without a controlled shutdown: another incarnation has registered, or it was "
                    "unregistered",
                    self._broker_id,
                )
                self._grant_shutdown()
                return
            self._schedule(self._next_retry_ms(), self._heartbeat)
            return
        self._retry_ms = FIRST_RETRY_MS
        wait_ms = self._settings.heartbeat_interval_ms
        if self.state is BrokerState.STARTING:
            if response.is_caught_up:
                self.state = BrokerState.RECOVERY
                self._listener.on_caught_up()
            wait_ms = STARTING_INTERVAL_MS
        elif self.state is BrokerState.RECOVERY:
            if not response.is_fenced:
                self.state = BrokerState.RUNNING
                self._listener.on_unfenced()
            elif self._is_recovered:
                wait_ms = STARTING_INTERVAL_MS
        elif self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            if response.should_shut_down:
                self._grant_shutdown()
                return
            wait_ms = SHUTDOWN_INTERVAL_MS
        if self._directory_timer is not None:
            if self._reported_directories == list(self._offline_directories()):
                self._directory_timer.cancel()
                self._directory_timer = None
            else:
                wait_ms = 0.0
        self._schedule(wait_ms, self._heartbeat)

    def _on_no_heartbeat(self, failure: NoResponse) -> None:
        logger.debug("no response to a heartbeat: %s", failure.reason)
        self._schedule(self._next_retry_ms(), self._heartbeat)

    def _grant_shutdown(self) -> None:
        if self.state in (BrokerState.SHUTTING_DOWN, BrokerState.NOT_RUNNING):
            return
        if self._shutdown_timer is not None:
            self._shutdown_timer.cancel()
        self.state = BrokerState.SHUTTING_DOWN
        self._listener.on_shutdown_granted()

    def _schedule(self, delay_ms: float, callback: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_at(self._clock.now_ms() + delay_ms, callback)

    def _next_retry_ms(self) -> float:
        wait_ms = self._retry_ms
        self._retry_ms = min(2 * wait_ms, self._settings.max_retry_ms)
        return wait_ms
