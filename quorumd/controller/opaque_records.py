"""Records that the image stores as written: ACLs, credentials, quotas, tokens, controllers.

Each sets or removes the value of one key. The value is the frame as written: a snapshot contains it byte for byte,
including tagged fields of later versions. `registered_controllers` and `security_records` parse the content.
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
"""The API key of the record that sets a value, and the record's identifying fields, which can be ordered."""


def _acl(record: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> OpaqueRecordKey:
    return AccessControlEntryRecord.API_KEY, record.id


def _scram(record: UserScramCredentialRecord | RemoveUserScramCredentialRecord) -> OpaqueRecordKey:
    return UserScramCredentialRecord.API_KEY, record.mechanism, record.name


def _token(record: DelegationTokenRecord | RemoveDelegationTokenRecord) -> OpaqueRecordKey:
    return DelegationTokenRecord.API_KEY, record.token_id


def _quota(record: ClientQuotaRecord) -> OpaqueRecordKey:
    """Return the key of a quota, regardless of the order of the entity's parts. The name None is the default."""
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
    """Return the same frame for all equivalent ones: Kafka's controllers write the entries of maps in any order.

    A frame with unknown fields is returned as it was.
    """
    if frame[1] not in _ORDER_FREE:
        return frame
    record, version = decode_frame(frame)
    if encode_record(record, version) != frame:
        return frame
    if isinstance(record, ClientQuotaRecord):
        record.entity.sort(key=lambda part: part.entity_type)
    else:
        assert isinstance(record, RegisterControllerRecord)
        record.end_points.sort(key=lambda endpoint: endpoint.name)
        record.features.sort(key=lambda feature: feature.name)
    return encode_record(record, version)


def is_removal(record: object) -> bool:
    """Whether an opaque record removes its key; otherwise it sets the key's value."""
    return record.remove if isinstance(record, ClientQuotaRecord) else type(record) in _REMOVERS


def check_removal(record: object) -> None:
    """Check a record that removes a missing key. Raises MalformedMessage for an ACL, as Kafka's readers halt on
    it."""
    if isinstance(record, RemoveAccessControlEntryRecord):
        raise MalformedMessage(f"a record removes the access control entry {record.id}, which does not exist")
