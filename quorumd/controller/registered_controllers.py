"""The controllers that are registered in the metadata log (KIP-919).

Readers know UnregisterControllerRecord from metadata.version 33 on (KIP-1312); below, a stock broker or controller
halts on it. At such a level, a controller is unregistered by a registration without an incarnation and listeners that
supports every feature at any level. Stock readers cannot connect to such a controller, and it prevents no feature
update; for quorumd it is not registered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from quorumd.controller.undo_log import UndoEntry, assign, remove
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.messages.register_controller_record import ControllerFeature, RegisterControllerRecord
from quorumd.protocol.messages.unregister_controller_record import UnregisterControllerRecord
from quorumd.protocol.wire import Message

UNREGISTER_SINCE: Final = 33
"""The metadata version (4.4-IV2) from which readers know UnregisterControllerRecord."""
HIGHEST_LEVEL: Final = 32_767


class ControllerListener(NamedTuple):
    """The endpoint of a controller's listener. `security_protocol`: as in `broker.BrokerEndpoint`."""

    name: str
    host: str
    port: int
    security_protocol: int


class RegisteredController(NamedTuple):
    """The registration of one incarnation of a controller, a start of its process.

    `features`: lowest and highest supported level by name; a feature without an entry is supported at level 0 only.
    """

    id: int
    incarnation_id: KafkaUuid
    listeners: tuple[ControllerListener, ...]
    features: dict[str, tuple[int, int]]


def apply_controller(
    controllers: dict[int, RegisteredController], record: Message, changes: list[UndoEntry]
) -> None:
    """Apply a RegisterControllerRecord or UnregisterControllerRecord; other records change nothing."""
    if isinstance(record, RegisterControllerRecord) and record.incarnation_id != ZERO_UUID:
        assign(controllers, record.controller_id, _from_record(record), changes)
    elif isinstance(record, (RegisterControllerRecord, UnregisterControllerRecord)):
        remove(controllers, record.controller_id, changes)


def unregistration_record(controller_id: int, metadata_version: int, features: Iterable[str]) -> Message:
    """Return the record that unregisters a controller for every reader at this metadata version.

    `features`: names of all features that stock controllers may update.
    """
    if metadata_version >= UNREGISTER_SINCE:
        return UnregisterControllerRecord(controller_id)
    all_levels = [ControllerFeature(name, 0, HIGHEST_LEVEL) for name in sorted(features)]
    return RegisterControllerRecord(controller_id, ZERO_UUID, False, [], all_levels)


def _from_record(record: RegisterControllerRecord) -> RegisteredController:
    return RegisteredController(
        record.controller_id,
        record.incarnation_id,
        tuple(ControllerListener(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
        {f.name: (f.min_supported_version, f.max_supported_version) for f in record.features},
    )
