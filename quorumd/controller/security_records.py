"""ACLs, SCRAM credentials, client quotas and delegation tokens, parsed for requests and the authorizer.

The image also stores the frames of their records (`opaque_records`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from quorumd.controller.undo_log import UndoEntry, assign, remove
from quorumd.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from quorumd.protocol.messages.client_quota_record import ClientQuotaRecord
from quorumd.protocol.messages.delegation_token_record import DelegationTokenRecord
from quorumd.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from quorumd.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from quorumd.protocol.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from quorumd.protocol.wire import Message
from quorumd.quotas.entities import QuotaEntity
from quorumd.security.acls import Acl, AclIndex, Lengths, PatternType, host_key, network_of
from quorumd.security.credentials import ScramCredential

K = TypeVar("K")
L = TypeVar("L")
V = TypeVar("V")


class Token(NamedTuple):
    """A delegation token. Principals are `Type:Name`; times are Unix milliseconds.

    `expires_ms` can be changed, at most to `max_ms`, the end of the token's lifetime.
    """

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def is_expired(self, now_ms: int) -> bool:
        """Whether the token can no longer be used or renewed."""
        return self.max_ms < now_ms or self.expires_ms < now_ms


class SecurityState:
    """`scram`: by (mechanism number, user). `quotas`: values by key, by entity. `tokens`: by id. `token_counts`: by
    the principal that requested them."""

    __slots__ = ("acls", "quotas", "scram", "token_counts", "tokens")

    def __init__(self) -> None:
        self.acls = AclIndex()
        self.scram: dict[tuple[int, str], ScramCredential] = {}
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.tokens: dict[str, Token] = {}
        self.token_counts: dict[str, int] = {}

    def apply(self, record: Message, changes: list[UndoEntry]) -> None:
        """Apply a record of these; other records change nothing."""
        replay = _REPLAY.get(type(record))
        if replay is not None:
            replay(self, record, changes)

    def _add_acl(self, record: AccessControlEntryRecord, changes: list[UndoEntry]) -> None:
        acl = Acl(
            record.resource_type,
            record.pattern_type,
            record.resource_name,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )
        index = self.acls
        before = index.acls.get(record.id)
        if before is not None:
            _drop(index, before, changes)
        assign(index.acls, record.id, acl, changes)
        _add(index, acl, changes)

    def _remove_acl(self, record: RemoveAccessControlEntryRecord, changes: list[UndoEntry]) -> None:
        _drop(self.acls, self.acls.acls[record.id], changes)
        remove(self.acls.acls, record.id, changes)

    def _set_scram(self, record: UserScramCredentialRecord, changes: list[UndoEntry]) -> None:
        credential = ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)
        assign(self.scram, (record.mechanism, record.name), credential, changes)

    def _remove_scram(self, record: RemoveUserScramCredentialRecord, changes: list[UndoEntry]) -> None:
        remove(self.scram, (record.mechanism, record.name), changes)

    def _set_quota(self, record: ClientQuotaRecord, changes: list[UndoEntry]) -> None:
        entity = quota_entity({part.entity_type: part.entity_name for part in record.entity})
        quotas = self.quotas.get(entity)
        if record.remove:
            if quotas is not None:
                remove(quotas, record.key, changes)
                if not quotas:
                    remove(self.quotas, entity, changes)
            return
        if quotas is None:
            quotas = {}
            assign(self.quotas, entity, quotas, changes)
        assign(quotas, record.key, record.value, changes)

    def _set_token(self, record: DelegationTokenRecord, changes: list[UndoEntry]) -> None:
        token = Token(
            record.token_id,
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )
        self._uncount_token(token.id, changes)
        assign(self.tokens, token.id, token, changes)
        assign(self.token_counts, token.requester, self.token_counts.get(token.requester, 0) + 1, changes)

    def _remove_token(self, record: RemoveDelegationTokenRecord, changes: list[UndoEntry]) -> None:
        self._uncount_token(record.token_id, changes)
        remove(self.tokens, record.token_id, changes)

    def _uncount_token(self, token_id: str, changes: list[UndoEntry]) -> None:
        """Subtract a token that is about to be replaced or removed from the count of its requester."""
        token = self.tokens.get(token_id)
        if token is None:
            return
        count = self.token_counts[token.requester] - 1
        if count:
            assign(self.token_counts, token.requester, count, changes)
        else:
            remove(self.token_counts, token.requester, changes)


def quota_entity(parts: dict[str, str | None]) -> QuotaEntity:
    """Return the entity with these names by type; the name None is the default."""
    return tuple(sorted(parts.items()))


def _add(index: AclIndex, acl: Acl, changes: list[UndoEntry]) -> None:
    """Add an ACL to the dictionaries that index it by resource and by right."""
    by_host = _inner(index.entries, (acl.pattern, acl.principal), changes)
    key = host_key(acl.host)
    assign(by_host, key, (*by_host.get(key, ()), acl.entry), changes)
    _count(_inner(index.rights, acl.right, changes), acl.pattern, 1, changes)
    network = network_of(acl.host)
    if network is not None:
        range_length = (network.version, network.prefixlen)
        _count_length(index.range_lengths, index.range_counts, range_length, 1, changes)
    is_new = _count(index.counts, acl.pattern, 1, changes) == 1
    if acl.pattern_type == PatternType.PREFIXED and is_new:
        length = (acl.resource_type, len(acl.name))
        _count_length(index.prefix_lengths, index.prefix_counts, length, 1, changes)


def _drop(index: AclIndex, acl: Acl, changes: list[UndoEntry]) -> None:
    """Remove an ACL from the dictionaries that index it by resource and by right."""
    by_host = index.entries[acl.pattern, acl.principal]
    key = host_key(acl.host)
    entries = list(by_host[key])
    entries.remove(acl.entry)
    if entries:
        assign(by_host, key, tuple(entries), changes)
    else:
        remove(by_host, key, changes)
        _forget_if_empty(index.entries, (acl.pattern, acl.principal), changes)
    _count(index.rights[acl.right], acl.pattern, -1, changes)
    _forget_if_empty(index.rights, acl.right, changes)
    network = network_of(acl.host)
    if network is not None:
        range_length = (network.version, network.prefixlen)
        _count_length(index.range_lengths, index.range_counts, range_length, -1, changes)
    is_last = _count(index.counts, acl.pattern, -1, changes) == 0
    if acl.pattern_type == PatternType.PREFIXED and is_last:
        length = (acl.resource_type, len(acl.name))
        _count_length(index.prefix_lengths, index.prefix_counts, length, -1, changes)


def _inner(outer: dict[K, dict[L, V]], key: K, changes: list[UndoEntry]) -> dict[L, V]:
    """Return the dictionary under a key, a new one if there is none."""
    if key not in outer:
        assign(outer, key, {}, changes)
    return outer[key]


def _forget_if_empty(outer: dict[K, dict[L, V]], key: K, changes: list[UndoEntry]) -> None:
    if not outer[key]:
        remove(outer, key, changes)


def _count(counts: dict[K, int], key: K, change: int, changes: list[UndoEntry]) -> int:
    """Change the count of a key, which has none at 0; returns the new count."""
    count = counts.get(key, 0) + change
    if count:
        assign(counts, key, count, changes)
    else:
        remove(counts, key, changes)
    return count


def _count_length(
    lengths: dict[int, Lengths],
    counts: dict[tuple[int, int], int],
    key: tuple[int, int],
    change: int,
    changes: list[UndoEntry],
) -> None:
    """Change the count of a kind's length. `lengths` changes only with the first and the last of a length: names may
    have hundreds of lengths."""
    was_known = key in counts
    is_known = _count(counts, key, change, changes) > 0
    if is_known == was_known:
        return
    kind, length = key
    left = list(lengths.get(kind, ()))
    if is_known:
        left.append(length)
    else:
        left.remove(length)
    assign(lengths, kind, tuple(sorted(left, reverse=True)), changes)


_REPLAY: Final[dict[type, Callable[[SecurityState, Any, list[UndoEntry]], None]]] = {
    AccessControlEntryRecord: SecurityState._add_acl,
    RemoveAccessControlEntryRecord: SecurityState._remove_acl,
    UserScramCredentialRecord: SecurityState._set_scram,
    RemoveUserScramCredentialRecord: SecurityState._remove_scram,
    ClientQuotaRecord: SecurityState._set_quota,
    DelegationTokenRecord: SecurityState._set_token,
    RemoveDelegationTokenRecord: SecurityState._remove_token,
}
