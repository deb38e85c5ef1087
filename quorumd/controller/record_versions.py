"""Record versions by metadata version, so that every reader at that version understands the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.wire import Message

MIGRATION_SINCE: Final = 8
"""The metadata version (3.4-IV0) from which brokers can migrate from ZooKeeper (KIP-866). Logs of Kafka 4 may be at 7
and higher."""
DIRECTORIES_SINCE: Final = 17
"""The metadata version (3.7-IV2) from which brokers and replicas have directories (KIP-858)."""
ELR_FIELDS_SINCE: Final = 23
"""The metadata version (4.0-IV1) from which partitions have an ELR (KIP-966)."""
CORDONED_SINCE: Final = 30
"""The metadata version (4.3-IV0) from which directories can be cordoned (KIP-1066)."""
_DEFAULT_LEVEL: Final = 21
"""Used while no metadata version is finalized: the lowest that is supported (`metadata_versions`)."""


def encode_for_version(record: Message, metadata_version: int) -> bytes:
    """Encode the frame of a record for readers at this metadata version, 0 if none is finalized yet.

    Fields unknown to them are first cleared in `record`, so that it equals the record that readers decode.
    """
    version_at = _VERSIONS.get(type(record))
    if version_at is None:
        return encode_record(record, 0)
    version = version_at(record, metadata_version or _DEFAULT_LEVEL)
    _clear_unsupported_fields(record, version)
    return encode_record(record, version)


def record_version(record: Message, metadata_version: int) -> int:
    """Return the version of a record for readers at this metadata version, 0 if none is finalized yet."""
    version_at = _VERSIONS.get(type(record))
    return 0 if version_at is None else version_at(record, metadata_version or _DEFAULT_LEVEL)


def _partition_version(record: Message, level: int) -> int:
    del record
    return 2 if level >= ELR_FIELDS_SINCE else 1 if level >= DIRECTORIES_SINCE else 0


def _registration_version(record: Message, level: int) -> int:
    del record
    if level >= DIRECTORIES_SINCE:
        return 4 if level >= CORDONED_SINCE else 3
    return 2 if level >= MIGRATION_SINCE else 1


def _registration_change_version(record: Message, level: int) -> int:
    assert isinstance(record, BrokerRegistrationChangeRecord)
    if record.cordoned_log_dirs is not None and level >= CORDONED_SINCE:
        return 3
    # A change of older fields gets the oldest version that has them, which every reader knows.
    if record.log_dirs and level >= DIRECTORIES_SINCE:
        return 2
    return 1 if record.in_controlled_shutdown else 0


_VERSIONS: Final[dict[type[Message], Callable[[Message, int], int]]] = {
    PartitionRecord: _partition_version,
    PartitionChangeRecord: _partition_version,
    RegisterBrokerRecord: _registration_version,
    BrokerRegistrationChangeRecord: _registration_change_version,
}
"""Functions that return the version of a record at a metadata version, by its class; other records have version 0."""


def _clear_unsupported_fields(record: Message, version: int) -> None:
    if isinstance(record, (PartitionChangeRecord, PartitionRecord)):
        if version < 2:
            record.eligible_leader_replicas = record.last_known_elr = None
        if version < 1:
            _clear_directories(record)
    elif isinstance(record, RegisterBrokerRecord) and version < 4:
        record.cordoned_log_dirs = None
        if version < 3:
            record.log_dirs = []
        if version < 2:
            record.is_migrating_zk_broker = False
    elif isinstance(record, BrokerRegistrationChangeRecord) and version < 3:
        record.cordoned_log_dirs = None
        if version < 2:
            record.log_dirs = []


def _clear_directories(record: PartitionChangeRecord | PartitionRecord) -> None:
    if isinstance(record, PartitionRecord):
        record.directories = []
    else:
        record.directories = None
