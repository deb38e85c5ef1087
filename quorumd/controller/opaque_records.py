"""Records that the image stores as written: access control, credentials, quotas, tokens, controllers.

Their content is in `registered_controllers` and `security_records`.

Each sets or removes the value of one key, as in Kafka's images. The value is the frame as written: a snapshot holds
it byte for byte, including tagged fields of later versions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quorumd.errors import MalformedMessage
from quorumd.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from quorumd.protocol.messages.client_quota_record import ClientQuotaRecord
from quorumd.protocol.messages.delegation_token_record import DelegationTokenRecord
from quorumd.protocol.messages.register_controller_record import RegisterControllerRecord
from quorumd.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from quorumd.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from quorumd.protocol.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from quorumd.protocol.messages.unregister_controller_record import UnregisterControllerRecord
from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from quorumd.protocol.messages.zk_migration_state_record import ZkMigrationStateRecord
from quorumd.protocol.metadata_record import decode_frame, encode_record

OpaqueRecordKey = tuple[Any, ...]
"""API key of the record that sets it, and the fields that identify the record. Keys of one API key can be ordered."""


def _acl(record: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> OpaqueRecordKey:
    return AccessControlEntryRecord.API_KEY, record.id


def _scram(record: UserScramCredentialRecord | RemoveUserScramCredentialRecord) -> OpaqueRecordKey:
    return UserScramCredentialRecord.API_KEY, record.mechanism, record.name


def _token(record: DelegationTokenRecord | RemoveDelegationTokenRecord) -> OpaqueRecordKey:
    return DelegationTokenRecord.API_KEY, record.token_id


def _quota(record: ClientQuotaRecord) -> OpaqueRecordKey:
    """The key of a quota: the order of an entity's parts does not matter; the name None stands for the default."""
    parts = [(e.entity_type, e.entity_name is not None, e.entity_name or "") for e in record.entity]
    return ClientQuotaRecord.API_KEY, tuple(sorted(parts)), record.key


def _controller(record: RegisterControllerRecord | UnregisterControllerRecord) -> OpaqueRecordKey:
    return RegisterControllerRecord.API_KEY, record.controller_id


def _migration(record: ZkMigrationStateRecord) -> OpaqueRecordKey:
    del record
    return (ZkMigrationStateRecord.API_KEY,)


OPAQUE_KEYS: Final[dict[type, Callable[[Any], OpaqueRecordKey]]] = {
    AccessControlEntryRecord: _acl,
    RemoveAccessControlEntryRecord: _acl,
    UserScramCredentialRecord: _scram,
    RemoveUserScramCredentialRecord: _scram,
    DelegationTokenRecord: _token,
    RemoveDelegationTokenRecord: _token,
    ClientQuotaRecord: _quota,
    RegisterControllerRecord: _controller,
    UnregisterControllerRecord: _controller,
    ZkMigrationStateRecord: _migration,
}
"""Functions that return the key of a record, by its type."""

_ORDER_FREE: Final = frozenset({ClientQuotaRecord.API_KEY, RegisterControllerRecord.API_KEY})

_REMOVERS: Final = frozenset(
    {
        RemoveAccessControlEntryRecord,
        RemoveUserScramCredentialRecord,
        RemoveDelegationTokenRecord,
        UnregisterControllerRecord,
    }
)


def canonical_frame(frame: bytes) -> bytes:
    """Return the canonical form of equivalent frames: Kafka's controllers write the entries of maps in any order.

    A frame with unknown fields is its own canonical form.
    """
    if frame[1] not in _ORDER_FREE:
        return frame
    record, version = decode_frame(frame)
    if encode_record(record, version) != frame:
        return frame
    if isinstance(record, ClientQuotaRecord):
        record.entity.sort(key=lambda part: part.entity_type)
    elif isinstance(record, RegisterControllerRecord):
        record.end_points.sort(key=lambda endpoint: endpoint.name)
        record.features.sort(key=lambda feature: feature.name)
    return encode_record(record, version)


def is_removal(record: object) -> bool:
    """Whether a record of these types removes its key; otherwise it sets it."""
    return record.remove if isinstance(record, ClientQuotaRecord) else type(record) in _REMOVERS


def check_removal(record: object) -> None:
    """Check a record that removes a missing key. Raises MalformedMessage where Kafka's readers halt too."""
    if isinstance(record, RemoveAccessControlEntryRecord):
        raise MalformedMessage(f"a record removes the access control entry {record.id}, which does not exist")
