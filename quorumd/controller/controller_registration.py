"""ControllerRegistration and UnregisterController: the registered controllers and their features (KIP-919)."""

from __future__ import annotations

from typing import Final

from quorumd.controller.controller import Controller
from quorumd.controller.controller_result import ControllerResult
from quorumd.controller.metadata_versions import SUPPORTED_FEATURES
from quorumd.controller.registered_controllers import RegisteredController, unregistration_record
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID
from quorumd.protocol.messages.controller_registration_request import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from quorumd.protocol.messages.controller_registration_response import ControllerRegistrationResponse
from quorumd.protocol.messages.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from quorumd.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from quorumd.protocol.messages.unregister_controller_response import UnregisterControllerResponse
from quorumd.text import is_name

MAX_NAME_LENGTH: Final = 255
"""Maximum length of a host, listener or feature name, in characters."""
MAX_PORT: Final = 65_535
SECURITY_PROTOCOLS: Final = 4
"""Number of security protocols: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL. A stock reader halts on any other."""
MAX_ENTRIES: Final = 100
"""Maximum number of listeners, and of features, of a registration."""


def plan_controller_registration(
    controller: Controller, message: ControllerRegistrationRequest, version: int
) -> ControllerResult:
    """Register a controller. As in Kafka, this replaces its registration whatever the incarnation: if the request of
    an earlier incarnation arrives late, the running one sees that in its image and registers again.

    A registration that the log already has is not written again.
    """
    del version
    problem = _validate_request(message)
    if problem is not None:
        text = f"controller {message.controller_id} is not registered: {problem}"
        return ControllerResult((), ControllerRegistrationResponse(0, int(ErrorCode.INVALID_REQUEST), text))
    response = ControllerRegistrationResponse(0, 0, None)
    if _is_registered(controller.image.controllers.get(message.controller_id), message):
        return ControllerResult((), response)
    return ControllerResult((_record(message),), response)


def plan_unregister_controller(
    controller: Controller, message: UnregisterControllerRequest, version: int
) -> ControllerResult:
    """Unregister a controller. If it is running, it registers again. Unlike in Kafka, this works at every metadata
    version: see `registered_controllers`."""
    del version
    image = controller.image
    if message.controller_id not in image.controllers:
        text = f"Controller {message.controller_id} is not registered."
        return ControllerResult(
            (), UnregisterControllerResponse(0, int(ErrorCode.CONTROLLER_ID_NOT_REGISTERED), text)
        )
    names = {feature.name for feature in SUPPORTED_FEATURES}
    for registered in image.controllers.values():
        names.update(registered.features)
    record = unregistration_record(message.controller_id, image.metadata_version, names)
    return ControllerResult((record,), UnregisterControllerResponse(0, 0, None))


def _validate_request(message: ControllerRegistrationRequest) -> str | None:
    """Return why readers of the log could not use this registration, None if they could."""
    names = [listener.name for listener in message.listeners]
    features = [feature.name for feature in message.features]
    if message.controller_id < 0:
        return "the id is negative"
    if message.incarnation_id == ZERO_UUID:
        return "the incarnation id is missing"
    if max(len(names), len(features)) > MAX_ENTRIES:
        return f"it has more than {MAX_ENTRIES} listeners or features"
    if len(set(names)) < len(names) or len(set(features)) < len(features):
        return "it has a duplicate listener or feature"
    if not all(map(_is_valid_endpoint, message.listeners)):
        return "a listener has no valid name, host or port, or an unknown security protocol"
    if not all(map(_is_valid_feature, message.features)):
        return "a feature has no valid name or an invalid range of levels"
    return None


def _is_valid_endpoint(listener: Listener) -> bool:
    return (
        _is_valid_name(listener.name)
        and _is_valid_name(listener.host)
        and 0 < listener.port <= MAX_PORT
        and 0 <= listener.security_protocol < SECURITY_PROTOCOLS
    )


def _is_valid_feature(feature: Feature) -> bool:
    lowest, highest = feature.min_supported_version, feature.max_supported_version
    return _is_valid_name(feature.name) and 0 <= lowest <= highest


def _is_valid_name(text: str) -> bool:
    return 0 < len(text) <= MAX_NAME_LENGTH and is_name(text)


def _is_registered(known: RegisteredController | None, message: ControllerRegistrationRequest) -> bool:
    return (
        known is not None
        and known.incarnation_id == message.incarnation_id
        and sorted(known.listeners)
        == sorted((e.name, e.host, e.port, e.security_protocol) for e in message.listeners)
        and known.features
        == {f.name: (f.min_supported_version, f.max_supported_version) for f in message.features}
    )


def _record(message: ControllerRegistrationRequest) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        message.controller_id,
        message.incarnation_id,
        False,
        [ControllerEndpoint(e.name, e.host, e.port, e.security_protocol) for e in message.listeners],
        [
            ControllerFeature(f.name, f.min_supported_version, f.max_supported_version)
            for f in message.features
        ],
    )
