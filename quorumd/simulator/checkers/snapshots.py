"""Invariants of snapshots: a snapshot equals the committed log below its end offset (KIP-630)."""

from __future__ import annotations

from bisect import bisect_left

from quorumd.controller.cluster_image import ClusterImage
from quorumd.ids import OffsetAndEpoch
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.control_record import decode_control
from quorumd.protocol.messages.voters_record import VotersRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import records, values
from quorumd.simulator.checkers.base import Checker
from quorumd.simulator.checkers.logs import CommittedDataIsImmutable


class Replayed:
    """The state after a sequence of batches."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.voters: VotersRecord | None = None

    def replay(self, data: bytes) -> None:
        for header in headers(data):
            if not header.is_control:
                for value in values(data, header):
                    self.image.apply(decode_record(value), [], value)
                continue
            for record in records(data, header):
                message = decode_control(record.key or b"", record.value or b"")
                if isinstance(message, VotersRecord):
                    self.voters = message

    def differences(self, other: Replayed) -> list[str]:
        different = []
        if self.image.fingerprint() != other.image.fingerprint():
            different.append("records")
        elif self.image.hash != other.image.hash:
            different.append("image hash")
        if _named(self.voters) != _named(other.voters):
            different.append("voters")
        return different


def _named(voters: VotersRecord | None) -> object:
    if voters is None:
        return None
    named = sorted(
        (
            voter.voter_id,
            voter.voter_directory_id,
            [(endpoint.name, endpoint.host, endpoint.port) for endpoint in voter.endpoints],
        )
        for voter in voters.voters
    )
    target = voters.target_voters
    return named, voters.cluster_id, None if target is None else [voter.voter_id for voter in target]


class SnapshotsEqualTheLog(Checker):
    """A snapshot ends at the end of a committed batch, equals the state of the log below it, and is byte-identical on
    every node."""

    invariant = "a snapshot equals the log that it replaces"
    aspects = 0

    def __init__(self, committed: CommittedDataIsImmutable) -> None:
        self._committed = committed
        self._known: dict[OffsetAndEpoch, bytes] = {}
        self.checked = 0
        self._replayed = Replayed()
        self._count = 0
        """The number of committed batches in `_replayed`."""

    def snapshot_seen(self, node_id: int, snapshot: OffsetAndEpoch, data: bytes) -> None:
        known = self._known.get(snapshot)
        if known is not None:
            if known != data:
                raise self.violation(
                    f"node {node_id} and another node have different bytes in snapshot {snapshot}"
                )
            return
        batches = self._committed.batches
        index = bisect_left(batches, snapshot.offset, key=lambda batch: batch.end_offset)
        if index == len(batches) or batches[index].end_offset != snapshot.offset:
            raise self.violation(
                f"node {node_id} has a snapshot that ends at {snapshot.offset}, but committed data ends at "
                f"{self._committed.end_offset}"
            )
        if batches[index].epoch != snapshot.epoch:
            raise self.violation(
                f"node {node_id}: snapshot {snapshot} ends with a batch of epoch {batches[index].epoch}"
            )
        if index + 1 < self._count:
            self._replayed, self._count = Replayed(), 0
        for batch in batches[self._count : index + 1]:
            self._replayed.replay(batch.data)
        self._count = index + 1
        found = Replayed()
        found.replay(data)
        different = self._replayed.differences(found)
        if different:
            raise self.violation(f"node {node_id}: snapshot {snapshot} differs in {' and '.join(different)}")
        self._known[snapshot] = data
        self.checked += 1
