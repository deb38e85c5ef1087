"""BrokerHeartbeat: a broker reports its liveness, metadata offset and requested state (KIP-631).

Most heartbeats write no record. A broker with more partitions than one step may change needs several heartbeats to
change its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from quorumd.controller.broker import Broker
from quorumd.controller.broker_lifecycle import (
    completes_fencing,
    cordon,
    drain,
    fence,
    mark_directories_offline,
    remove_from_isrs,
    unfence,
)
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from quorumd.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from quorumd.protocol.wire import Message


class BrokerState(Enum):
    """The states of a broker."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    """Still serving while other brokers take over its leaderships."""
    SHUTDOWN_NOW = auto()
    """Fenced and directed to stop: the broker leads no partition."""


def plan_broker_heartbeat(
    controller: Controller, message: BrokerHeartbeatRequest, version: int
) -> ControllerResult:
    """Plan the state change that the heartbeat requests; call `record_heartbeat` first."""
    del version
    broker = controller.image.brokers.get(message.broker_id)
    if broker is None or broker.epoch != message.broker_epoch:
        return ControllerResult((), BrokerHeartbeatResponse(0, int(ErrorCode.STALE_BROKER_EPOCH)))
    state = broker_state(broker)
    records: Sequence[Message] = ()
    if any(directory in broker.directories for directory in message.offline_log_dirs):
        records = mark_directories_offline(controller, broker, message.offline_log_dirs)
    # A state change is planned by the next heartbeat, with an image in which these directories are offline: it must
    # elect no replica in them.
    next_state = state if records else _next_state(controller, broker, state, message)
    if next_state is not state:
        records = _transition(controller, broker, state, next_state)
        if (
            next_state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)
            and records
            and not completes_fencing(records)
        ):
            next_state = state
    elif next_state is BrokerState.CONTROLLED_SHUTDOWN and _leads(controller, broker):
        # The drain takes several steps, or the previous controller did not complete it.
        records = remove_from_isrs(controller, broker.id, controller.step)
    response = BrokerHeartbeatResponse(
        0,
        0,
        message.current_metadata_offset >= broker.epoch,
        next_state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        next_state is BrokerState.SHUTDOWN_NOW,
    )
    cordoned = cordon(controller, broker, message.cordoned_log_dirs)
    return ControllerResult([*cordoned, *records] if cordoned else records, response)


def record_heartbeat(controller: Controller, message: BrokerHeartbeatRequest) -> None:
    """Renew the session, whatever the heartbeat requests. Once a broker in controlled shutdown leads no partition,
    also record the offset that the other brokers must reach before it may stop: that of the last record in the
    log."""
    broker = controller.image.brokers.get(message.broker_id)
    if broker is None or broker.epoch != message.broker_epoch:
        return
    session = controller.sessions.touch(
        broker.id, broker.epoch, message.current_metadata_offset, controller.now_ms()
    )
    session.wants_shutdown = message.want_shut_down
    if broker.is_fenced:
        session.elections_checked = False
    if (
        broker.in_controlled_shutdown
        and session.controlled_shutdown_offset < 0
        and not _leads(controller, broker)
    ):
        # A control record may still be appended before the pending records and make this offset slightly too low.
        # Then other brokers may learn the new leaders slightly late; the change is committed before the broker stops.
        session.controlled_shutdown_offset = controller.next_offset() - 1


def broker_state(broker: Broker) -> BrokerState:
    """Return the state that the image has for the broker; never SHUTDOWN_NOW, which only a response reports."""
    if broker.is_fenced:
        return BrokerState.FENCED
    return BrokerState.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else BrokerState.UNFENCED


def _next_state(
    controller: Controller, broker: Broker, state: BrokerState, message: BrokerHeartbeatRequest
) -> BrokerState:
    if state is BrokerState.FENCED:
        if message.want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        is_ready = not message.want_fence and message.current_metadata_offset >= broker.epoch
        return BrokerState.UNFENCED if is_ready else BrokerState.FENCED
    if state is BrokerState.UNFENCED:
        if message.want_fence:
            return BrokerState.SHUTDOWN_NOW if message.want_shut_down else BrokerState.FENCED
        if message.want_shut_down:
            return BrokerState.CONTROLLED_SHUTDOWN if _leads(controller, broker) else BrokerState.SHUTDOWN_NOW
        return BrokerState.UNFENCED
    if not _leads(controller, broker) and _is_shutdown_known_to_all(controller, broker):
        return BrokerState.SHUTDOWN_NOW
    return BrokerState.CONTROLLED_SHUTDOWN


def _leads(controller: Controller, broker: Broker) -> bool:
    return controller.image.index.leader_count(broker.id) > 0


def _is_shutdown_known_to_all(controller: Controller, broker: Broker) -> bool:
    """Whether every active broker has applied the metadata in which this broker leads no partition."""
    sessions = controller.sessions
    this_session = sessions.get(broker.id)
    if this_session is None or this_session.controlled_shutdown_offset < 0:
        return False
    for other in controller.image.brokers.values():
        if other.is_active:
            session = sessions.get(other.id)
            if session is None or session.metadata_offset < this_session.controlled_shutdown_offset:
                return False
    return True


def _transition(
    controller: Controller, broker: Broker, state: BrokerState, next_state: BrokerState
) -> Sequence[Message]:
    if next_state is BrokerState.UNFENCED:
        return unfence(controller, broker, controller.step)
    if next_state is BrokerState.CONTROLLED_SHUTDOWN:
        return drain(controller, broker, controller.step)
    return fence(controller, broker, controller.step) if state is not BrokerState.FENCED else ()
