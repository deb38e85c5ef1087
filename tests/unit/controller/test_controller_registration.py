"""ControllerRegistration and UnregisterController (KIP-919, KIP-1312)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from quorumd.controller.cluster_image import METADATA_VERSION, ClusterImage
from quorumd.controller.controller import Controller, ControllerSettings
from quorumd.controller.controller_registration import (
    plan_controller_registration,
    plan_unregister_controller,
)
from quorumd.controller.image_records import snapshot_frames
from quorumd.controller.registered_controllers import UNREGISTER_SINCE, RegisteredController
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.messages.controller_registration_request import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.register_controller_record import RegisterControllerRecord
from quorumd.protocol.messages.unregister_controller_record import UnregisterControllerRecord
from quorumd.protocol.messages.unregister_controller_request import UnregisterControllerRequest
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.wire import Message

FIRST, SECOND = KafkaUuid(b"first incarnatio"), KafkaUuid(b"second incarnati")
LISTENER = Listener("CONTROLLER", "10.0.0.7", 9093, 0)
FEATURE = Feature("metadata.version", 21, 30)


@pytest.fixture
def controller() -> Controller:
    made = Controller(ControllerSettings(), lambda: "cluster", lambda: 0.0, lambda: 0, lambda: ZERO_UUID)
    made.image.apply(FeatureLevelRecord(METADATA_VERSION, 25), [])
    return made


def register(
    controller: Controller,
    incarnation: KafkaUuid = FIRST,
    listeners: Sequence[Listener] = (LISTENER,),
    features: Sequence[Feature] = (FEATURE,),
    controller_id: int = 7,
) -> tuple[Any, list[Message]]:
    """Register; returns the response and the records, which are applied."""
    message = ControllerRegistrationRequest(
        controller_id, incarnation, False, list(listeners), list(features)
    )
    plan = plan_controller_registration(controller, message, 0)
    for record in plan.records:
        controller.image.apply(record, [])
    return plan.response, list(plan.records)


def unregister(controller: Controller, controller_id: int = 7) -> tuple[Any, list[Message]]:
    plan = plan_unregister_controller(controller, UnregisterControllerRequest(controller_id), 0)
    for record in plan.records:
        controller.image.apply(record, [])
    return plan.response, list(plan.records)


def test_registration_is_recorded_in_the_image(controller: Controller) -> None:
    reply, records = register(controller)
    assert (reply.error_code, len(records)) == (0, 1)
    expected = RegisteredController(
        7, FIRST, (("CONTROLLER", "10.0.0.7", 9093, 0),), {"metadata.version": (21, 30)}
    )
    assert controller.image.controllers == {7: expected}


def test_new_incarnation_replaces_the_previous_registration(controller: Controller) -> None:
    register(controller)
    register(controller, SECOND)
    assert controller.image.controllers[7].incarnation_id == SECOND


def test_repeated_registration_writes_no_record(controller: Controller) -> None:
    listeners = [LISTENER, Listener("OTHER", "h", 1, 0)]
    register(controller, listeners=listeners)
    reply, records = register(controller, listeners=listeners[::-1])
    assert (reply.error_code, records) == (0, [])
    assert register(controller, listeners=[LISTENER])[1] != []
    assert register(controller, listeners=[LISTENER], features=[Feature("metadata.version", 21, 25)])[1] != []


@pytest.mark.parametrize(
    "wrong",
    [
        {"controller_id": -1},
        {"incarnation": ZERO_UUID},
        {"listeners": [LISTENER, LISTENER]},
        {"listeners": [Listener("", "h", 1, 0)]},
        {"listeners": [Listener("N", "", 1, 0)]},
        {"listeners": [Listener("N", "h", 0, 0)]},
        {"listeners": [Listener("N", "h" * 256, 1, 0)]},
        {"listeners": [Listener("N", "h", 1, 4)]},
        {"listeners": [Listener(str(number), "h", 1, 0) for number in range(101)]},
        {"features": [FEATURE, FEATURE]},
        {"features": [Feature("metadata.version", 30, 21)]},
        {"features": [Feature("metadata.version", -1, 21)]},
        {"features": [Feature("", 0, 1)]},
        {"features": [Feature("f\x07", 0, 1)]},
        {"listeners": [Listener("N\x1b", "h", 1, 0)]},
        {"listeners": [Listener("N", "h\x85", 1, 0)]},
    ],
    ids=repr,
)
def test_invalid_registration_writes_no_record(controller: Controller, wrong: dict[str, Any]) -> None:
    reply, records = register(controller, **wrong)
    assert (reply.error_code, records) == (ErrorCode.INVALID_REQUEST, [])
    assert "is not registered: " in reply.error_message


@pytest.mark.parametrize(
    "valid",
    [
        {"controller_id": 0},
        {"listeners": [Listener(str(number), "h", 1, 0) for number in range(100)]},
        {"listeners": [Listener("N" * 255, "h" * 255, 1, 0)]},
        {"listeners": [Listener("N", "h", 1, 3)]},
        {"features": [Feature("f" * 255, 0, 0), FEATURE]},
        {"features": [Feature("metadata.version", 25, 25)]},
    ],
    ids=repr,
)
def test_registration_at_its_limits_is_recorded(controller: Controller, valid: dict[str, Any]) -> None:
    reply, records = register(controller, **valid)
    assert (reply.error_code, len(records)) == (0, 1)


def test_highest_port_is_65535(controller: Controller) -> None:
    assert register(controller, listeners=[Listener("N", "h", 65_535, 0)])[0].error_code == 0
    reply, _ = register(controller, listeners=[Listener("N", "h", 65_536, 0)])
    assert reply.error_code == ErrorCode.INVALID_REQUEST


def test_unregistering_unknown_controller_is_an_error(controller: Controller) -> None:
    reply, records = unregister(controller)
    assert (reply.error_code, records) == (ErrorCode.CONTROLLER_ID_NOT_REGISTERED, [])


def test_unregistration_writes_its_record(controller: Controller) -> None:
    controller.image.apply(FeatureLevelRecord(METADATA_VERSION, UNREGISTER_SINCE), [])
    register(controller)
    reply, records = unregister(controller)
    assert (reply.error_code, records) == (0, [UnregisterControllerRecord(7)])
    assert controller.image.controllers == {}


def test_unregistration_below_its_record_vacates_the_registration(controller: Controller) -> None:
    """Stock readers halt on unknown records, and treat a feature that is not named as supported at level 0 only."""
    register(controller, features=[FEATURE, Feature("new.version", 0, 3)])
    reply, records = unregister(controller)
    (record,) = records
    assert reply.error_code == 0
    assert isinstance(record, RegisterControllerRecord)
    assert (record.incarnation_id, record.end_points) == (ZERO_UUID, [])
    levels = {f.name: (f.min_supported_version, f.max_supported_version) for f in record.features}
    assert {"metadata.version", "kraft.version", "new.version"} <= levels.keys()
    assert set(levels.values()) == {(0, 32_767)}
    assert controller.image.controllers == {}
    assert unregister(controller)[0].error_code == ErrorCode.CONTROLLER_ID_NOT_REGISTERED


def test_unregistered_controller_may_register_again(controller: Controller) -> None:
    register(controller)
    unregister(controller)
    register(controller)
    assert controller.image.controllers[7].incarnation_id == FIRST


@pytest.mark.parametrize("level", [25, UNREGISTER_SINCE])
def test_registrations_are_undone_and_snapshotted(controller: Controller, level: int) -> None:
    image = controller.image
    image.apply(FeatureLevelRecord(METADATA_VERSION, level), [])
    register(controller)
    register(controller, SECOND, controller_id=8)
    before, registered, hashed = image.fingerprint(), dict(image.controllers), image.hash
    changes: list[UndoEntry] = []
    for planned in (
        plan_unregister_controller(controller, UnregisterControllerRequest(7), 0),
        plan_controller_registration(controller, ControllerRegistrationRequest(8, FIRST), 0),
    ):
        for record in planned.records:
            image.apply(record, changes)
    assert image.controllers.keys() == {8}
    assert image.controllers[8].incarnation_id == FIRST
    loaded = ClusterImage()
    for frame in snapshot_frames(image):
        loaded.apply(decode_record(frame), [], frame)
    assert (loaded.controllers, loaded.hash) == (image.controllers, image.hash)
    undo(reversed(changes))
    assert (image.fingerprint(), image.controllers, image.hash) == (before, registered, hashed)
