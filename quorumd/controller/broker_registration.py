"""BrokerRegistration and UnregisterBroker: the registered brokers and their incarnations (KIP-631, KIP-903)."""

from __future__ import annotations

from typing import Final

from quorumd.controller.broker import Broker
from quorumd.controller.broker_lifecycle import remove_after_unclean_shutdown, remove_from_isrs, unregister
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.request_context import NO_CONTEXT, RequestContext
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Listener
from quorumd.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from quorumd.protocol.messages.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from quorumd.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from quorumd.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from quorumd.protocol.wire import Message
from quorumd.text import is_name

NO_EPOCH: Final = -1
RESERVED_DIRECTORIES: Final = 100
"""Number of UUIDs, from zero, that are reserved and cannot be directory ids (KIP-858)."""
MAX_NAME_LENGTH: Final = 255
"""Maximum length of a host, listener, feature or rack in characters, far below that of a wire string (int16)."""
MAX_PORT: Final = 65_535


def plan_broker_registration(
    controller: Controller, message: BrokerRegistrationRequest, version: int
) -> ControllerResult:
    """Register a broker incarnation: it gets an epoch and starts fenced. The same batch removes the previous
    incarnation from ISRs and leaderships, which has not happened yet if its session expired only just now.

    A repeated request of the same incarnation gets the same epoch and leaves the broker's state unchanged.
    """
    del version
    previous = controller.image.brokers.get(message.broker_id)
    error = _validate_request(controller, message, previous)
    if error is not None:
        return ControllerResult((), BrokerRegistrationResponse(0, int(error)))
    if previous is not None and previous.incarnation_id == message.incarnation_id:
        record = _record(message, previous.epoch, previous.is_fenced, previous.in_controlled_shutdown)
        record.cordoned_log_dirs = None if previous.cordoned is None else list(previous.cordoned)
        return ControllerResult((record,), BrokerRegistrationResponse(0, 0, previous.epoch))
    is_clean = previous is not None and message.previous_broker_epoch == previous.epoch
    remove_replicas = remove_from_isrs if is_clean else remove_after_unclean_shutdown
    records: list[Message] = remove_replicas(controller, message.broker_id)
    epoch = controller.next_offset() + len(records)
    records.append(_record(message, epoch, True, False))
    return ControllerResult(records, BrokerRegistrationResponse(0, 0, epoch))


def renew_session(controller: Controller, message: BrokerRegistrationRequest) -> None:
    """Renew the session of a broker incarnation that repeats its registration."""
    broker = controller.image.brokers.get(message.broker_id)
    if broker is not None and broker.incarnation_id == message.incarnation_id:
        controller.sessions.touch(broker.id, broker.epoch, -1, controller.now_ms())


def plan_unregister_broker(
    controller: Controller,
    message: UnregisterBrokerRequest,
    version: int,
    context: RequestContext = NO_CONTEXT,
) -> ControllerResult:
    """Unregister a broker, alive or not; a running broker must restart to register again.

    The parts of the request before the last one remove it from ISRs and leaderships.
    """
    del version
    broker = controller.image.brokers.get(message.broker_id)
    if broker is None:
        text = f"No broker with id {message.broker_id} is registered."
        return ControllerResult(
            (), UnregisterBrokerResponse(0, int(ErrorCode.BROKER_ID_NOT_REGISTERED), text)
        )
    limit = context.part.limit
    records = (
        unregister(controller, broker) if limit is None else remove_from_isrs(controller, broker.id, limit)
    )
    return ControllerResult(records, UnregisterBrokerResponse(0, 0, None))


def partitions_to_unregister(controller: Controller, message: Message) -> int:
    """Return the number of partitions that an UnregisterBroker request may change."""
    assert isinstance(message, UnregisterBrokerRequest)
    return controller.image.index.count_with_broker(message.broker_id)


def _validate_request(
    controller: Controller, message: BrokerRegistrationRequest, previous: Broker | None
) -> ErrorCode | None:
    """Return the error if the broker cannot register, or not yet; None otherwise."""
    if message.cluster_id != controller.cluster_id():
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if (
        previous is not None
        and previous.incarnation_id != message.incarnation_id
        and _blocks_registration(controller, previous)
    ):
        return ErrorCode.DUPLICATE_BROKER_REGISTRATION
    image = controller.image
    if message.broker_id < 0 or message.is_migrating_zk_broker:
        return ErrorCode.INVALID_REGISTRATION
    if not _is_valid_request(message) or not _are_unclaimed_directories(
        image, message.broker_id, message.log_dirs
    ):
        return ErrorCode.INVALID_REGISTRATION
    return None if _supports_finalized_features(image, message) else ErrorCode.UNSUPPORTED_VERSION


def _blocks_registration(controller: Controller, previous: Broker) -> bool:
    """Whether the previous incarnation may be alive, or has too many partitions to be removed from in one step.

    An incarnation that sends heartbeats while it is fenced is starting: a registration that was sent before it and
    arrives late would replace it forever (R27). One that shuts down gives way at once.
    """
    if previous.in_controlled_shutdown:
        return False
    is_alive = controller.sessions.is_alive(previous.id, controller.now_ms())
    if previous.is_fenced:
        session = controller.sessions.get(previous.id)
        is_of_previous = (
            session is not None and session.epoch == previous.epoch and not session.wants_shutdown
        )
        return is_alive and is_of_previous
    return is_alive or controller.image.index.count_with_broker(previous.id) > controller.step


def _is_valid_request(message: BrokerRegistrationRequest) -> bool:
    """Whether the listeners, features and rack are valid and fit the responses to clients."""
    names = [listener.name for listener in message.listeners]
    features = [feature.name for feature in message.features]
    return (
        len(set(names)) == len(names)
        and all(map(_is_valid_listener, message.listeners))
        and all(0 < len(name) <= MAX_NAME_LENGTH and is_name(name) for name in (*names, *features))
        and len(message.rack or "") <= MAX_NAME_LENGTH
        and is_name(message.rack or "")
    )


def _is_valid_listener(listener: Listener) -> bool:
    is_host = 0 < len(listener.host) <= MAX_NAME_LENGTH and is_name(listener.host)
    return is_host and 0 < listener.port <= MAX_PORT


def _are_unclaimed_directories(image: ClusterImage, broker_id: int, directories: list[KafkaUuid]) -> bool:
    """Whether these can be the directories of a broker: at least one, none reserved, repeated or of another
    broker."""
    others = {
        directory
        for broker in image.brokers.values()
        if broker.id != broker_id
        for directory in broker.directories
    }
    return (
        bool(directories)
        and len(set(directories)) == len(directories)
        and all(
            int.from_bytes(directory, "big") >= RESERVED_DIRECTORIES and directory not in others
            for directory in directories
        )
    )


def _supports_finalized_features(image: ClusterImage, message: BrokerRegistrationRequest) -> bool:
    """Whether the broker supports every feature at its finalized level."""
    ranges = {f.name: (f.min_supported_version, f.max_supported_version) for f in message.features}
    for name, level in image.features.items():
        lowest, highest = ranges.get(name, (0, 0))
        if not lowest <= level <= highest:
            return False
    return True


def _record(
    message: BrokerRegistrationRequest, epoch: int, is_fenced: bool, in_controlled_shutdown: bool
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        message.broker_id,
        False,
        message.incarnation_id,
        epoch,
        [BrokerEndpoint(x.name, x.host, x.port, x.security_protocol) for x in message.listeners],
        [BrokerFeature(f.name, f.min_supported_version, f.max_supported_version) for f in message.features],
        message.rack,
        is_fenced,
        in_controlled_shutdown,
        list(message.log_dirs),
    )
