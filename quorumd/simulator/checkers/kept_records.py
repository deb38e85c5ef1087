"""Records that quorumd keeps for others: what the committed log says of them, told without the image's code."""

from __future__ import annotations

from bisect import bisect_right

from quorumd.ids import OffsetAndEpoch
from quorumd.protocol.messages.client_quota_record import ClientQuotaRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import headers, values
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.base import APPLIED, Checker, Observation
from quorumd.simulator.checkers.logs import CommittedDataIsImmutable

Named = tuple[str, str]
"""What a record is about: a kind, and which of it."""

SETS = {
    "AccessControlEntryRecord": ("acl", ("id",)),
    "UserScramCredentialRecord": ("scram", ("name", "mechanism")),
    "DelegationTokenRecord": ("token", ("token_id",)),
    "RegisterControllerRecord": ("controller", ("controller_id",)),
    "ZkMigrationStateRecord": ("migration", ()),
}
"""Fields that name what a record sets,"""
REMOVES = {
    "RemoveAccessControlEntryRecord": SETS["AccessControlEntryRecord"],
    "RemoveUserScramCredentialRecord": SETS["UserScramCredentialRecord"],
    "RemoveDelegationTokenRecord": SETS["DelegationTokenRecord"],
    "UnregisterControllerRecord": SETS["RegisterControllerRecord"],
}
"""and what it removes."""


def named(record: Message) -> tuple[Named, bool] | None:
    """What a record is about and whether that is removed; None for records of which an image keeps something else."""
    if isinstance(record, ClientQuotaRecord):
        return ("quota", f"{sorted(map(repr, record.entity))} {record.key}"), record.remove
    for kinds, removed in ((SETS, False), (REMOVES, True)):
        if record.NAME in kinds:
            kind, fields = kinds[record.NAME]
            return (kind, repr([getattr(record, field) for field in fields])), removed
    return None


class KeptRecordsSurvive(Checker):
    """What was written of access control, credentials, quotas, tokens and controllers is in every image and snapshot,
    byte for byte, until it is removed."""

    invariant = "records kept for others survive"
    aspects = APPLIED

    def __init__(self, committed: CommittedDataIsImmutable) -> None:
        self._committed = committed
        self._read = 0
        """So many of the committed batches are in the states."""
        self._state: dict[Named, bytes] = {}
        self._begins: list[int] = []
        """Where each batch begins that changes something."""
        self._ends: list[int] = [0]
        self._states: list[frozenset[bytes]] = [frozenset()]
        """What was kept once all below an end was applied."""

    def observed(self, seen: Observation) -> None:
        if seen.kept is not None:
            self._compare(seen.kept, seen.applied_offset, f"the image of node {seen.node_id}")

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
            return  # Another checker's matter.
        number = bisect_right(self._ends, offset) - 1
        if number < len(self._begins) and self._begins[number] < offset:
            return  # In the middle of a large batch, which is applied in parts.
        expected = self._states[number]
        if found == expected:
            return
        missing = sorted(repr(decode_record(frame)) for frame in expected - found)
        other = sorted(repr(decode_record(frame)) for frame in found - expected)
        raise self.violation(f"at offset {offset} {where} lacks {missing} and has {other} besides")

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
        """Whether a batch changed something."""
        changed = False
        for header in headers(data):
            for frame in values(data, header):
                about = named(decode_record(frame))
                if about is None:
                    continue
                changed = True
                name, is_removed = about
                if is_removed:
                    self._state.pop(name, None)
                else:
                    self._state[name] = frame
        return changed
