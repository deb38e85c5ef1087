"""Indexes of ACLs, built from records like the index of an image."""

from __future__ import annotations

from collections.abc import Iterable

from quorumd.controller.security_records import SecurityState
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from quorumd.security.acls import Acl, AclIndex


def acl_record(acl: Acl, number: int) -> AccessControlEntryRecord:
    """Return the record of an ACL with the id `number`."""
    return AccessControlEntryRecord(
        KafkaUuid(number.to_bytes(16, "big")),
        acl.resource_type,
        acl.name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def index_of(acls: Iterable[Acl]) -> AclIndex:
    """Return the index of these ACLs."""
    state = SecurityState()
    for number, acl in enumerate(acls, 1):
        state.apply(acl_record(acl, number), [])
    return state.acls
