"""Records that quorumd stores as written, replayed from the committed log without the image's code."""

from __future__ import annotations

from bisect import bisect_right

from quorumd.ids import OffsetAndEpoch
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.messages.client_quota_record import ClientQuotaRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import values
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.base import APPLIED, Checker, Observation
from quorumd.simulator.checkers.logs import CommittedDataIsImmutable

Named = tuple[str, str]
"""The resource that a record sets or removes: its kind and its key."""

SETS = {
    "AccessControlEntryRecord": ("acl", ("id",)),
    "UserScramCredentialRecord": ("scram", ("name", "mechanism")),
    "DelegationTokenRecord": ("token", ("token_id",)),
    "RegisterControllerRecord": ("controller", ("controller_id",)),
    "ZkMigrationStateRecord": ("migration", ()),
}
"""Record type -> the fields that identify the resource that it sets."""
REMOVES = {
    "RemoveAccessControlEntryRecord": SETS["AccessControlEntryRecord"],
    "RemoveUserScramCredentialRecord": SETS["UserScramCredentialRecord"],
    "RemoveDelegationTokenRecord": SETS["DelegationTokenRecord"],
    "UnregisterControllerRecord": SETS["RegisterControllerRecord"],
}
"""Record type -> the fields that identify the resource that it removes."""


def named(record: Message) -> tuple[Named, bool] | None:
    """Return the resource of a record and whether the record removes it; None for records of other kinds."""
    if isinstance(record, ClientQuotaRecord):
        return ("quota", f"{sorted(map(repr, record.entity))} {record.key}"), record.remove
    for kinds, removed in ((SETS, False), (REMOVES, True)):
        if record.NAME in kinds:
            kind, fields = kinds[record.NAME]
            return (kind, repr([getattr(record, field) for field in fields])), removed
    return None


class KeptRecordsSurvive(Checker):
    """Every record of access control, credentials, quotas, tokens and controllers is in every image and snapshot,
    byte for byte, until it is removed."""

    invariant = "records kept for others survive"
    aspects = APPLIED

    def __init__(self, committed: CommittedDataIsImmutable) -> None:
        self._committed = committed
        self._read = 0
        """The number of committed batches in the states."""
        self._state: dict[Named, bytes] = {}
        self._transaction: list[bytes] | None = None
        """The frames of the open transaction, None without one."""
        self._begins: list[int] = []
        """The base offset of each batch that changes the state."""
        self._ends: list[int] = [0]
        self._states: list[frozenset[bytes]] = [frozenset()]
        """The stored records after each of those batches."""

    def observed(self, seen: Observation) -> None:
        if seen.opaque_records is not None:
            self._compare(seen.opaque_records, seen.applied_offset, f"the image of node {seen.node_id}")

    def snapshot_seen(self, node_id: int, snapshot: OffsetAndEpoch, data: bytes) -> None:
        found = frozenset(
            frame
            for header in headers(data)
            if not header.is_control
            for frame in values(data, header)
            if named(decode_record(frame)) is not None
        )
        self._compare(found, snapshot.offset, f"the snapshot {snapshot} of node {node_id}")

    def _compare(self, found: frozenset[bytes], offset: int, where: str) -> None:
        self._read_committed()
        if offset > self._committed.end_offset:
            return  # Another checker reports it.
        number = bisect_right(self._ends, offset) - 1
        if number < len(self._begins) and self._begins[number] < offset:
            return  # Within a large batch, which is applied in parts.
        expected = self._states[number]
        if found == expected:
            return
        missing = sorted(repr(decode_record(frame)) for frame in expected - found)
        other = sorted(repr(decode_record(frame)) for frame in found - expected)
        raise self.violation(f"at offset {offset} {where} lacks {missing} and has unexpected {other}")

    def _read_committed(self) -> None:
        batches = self._committed.batches
        while self._read < len(batches):
            batch = batches[self._read]
            self._read += 1
            if not batch.is_control and self._apply(batch.data):
                self._begins.append(batch.base_offset)
                self._ends.append(batch.end_offset)
                self._states.append(frozenset(self._state.values()))

    def _apply(self, data: bytes) -> bool:
        """Apply a batch; return whether it changed the state. The records of a transaction count at its end."""
        changed = False
        for header in headers(data):
            for frame in values(data, header):
                kind = decode_record(frame).NAME
                if kind == "BeginTransactionRecord":
                    self._transaction = []
                elif kind in ("EndTransactionRecord", "AbortTransactionRecord"):
                    ended, self._transaction = self._transaction or [], None
                    for each in ended if kind == "EndTransactionRecord" else ():
                        changed |= self._apply_record(each)
                elif self._transaction is not None:
                    self._transaction.append(frame)
                else:
                    changed |= self._apply_record(frame)
        return changed

    def _apply_record(self, frame: bytes) -> bool:
        about = named(decode_record(frame))
        if about is None:
            return False
        name, is_removed = about
        if is_removed:
            self._state.pop(name, None)
        else:
            self._state[name] = frame
        return True
