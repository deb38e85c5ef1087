"""Invariants of the state that the committed records produce."""

from __future__ import annotations

import re

from quorumd.node.wire.voter_records import voter_records
from quorumd.protocol.batch_scan import headers
from quorumd.simulator.checkers.base import APPLIED, Checker, Observation, SavedVoters
from quorumd.simulator.checkers.logs import CommittedDataIsImmutable

WRITTEN_VALUE = re.compile(rb"w[0-9]+-[0-9]+;")
"""The workload's values: unique, and recognizable in a batch without decoding it."""


class _CommittedValues(Checker):
    """Tracks the committed values that clients wrote."""

    def __init__(self, committed: CommittedDataIsImmutable) -> None:
        self._committed = committed
        self._searched = 0
        self._values: set[str] = set()

    def _is_committed(self, value: str) -> bool:
        for batch in self._committed.batches[self._searched :]:
            self._values.update(found.decode() for found in WRITTEN_VALUE.findall(batch.data))
        self._searched = len(self._committed.batches)
        return value in self._values


class AcknowledgedWrites(_CommittedValues):
    """A write is in the committed log before it is acknowledged, and remains there unchanged."""

    invariant = "acknowledged writes are committed"
    aspects = 0

    def acknowledged(self, value: str) -> None:
        if not self._is_committed(value):
            raise self.violation(f"{value} was acknowledged and is not committed")


class ReadsReturnCommitted(_CommittedValues):
    """No client reads a value that may still be lost (Raft paper section 8)."""

    invariant = "reads return committed data"
    aspects = 0

    def read(self, value: str) -> None:
        if not self._is_committed(value):
            raise self.violation(f"{value} was read and is not committed")


class ImagesEqual(Checker):
    """Nodes that have applied the same prefix of the log have images with equal hashes."""

    invariant = "equal logs give equal images"
    aspects = APPLIED

    def __init__(self) -> None:
        self._hashes: dict[int, tuple[int, int]] = {}

    def observed(self, seen: Observation) -> None:
        if seen.image_hash is None:
            return
        known, node_id = self._hashes.setdefault(seen.applied_offset, (seen.image_hash, seen.node_id))
        if known != seen.image_hash:
            raise self.violation(
                f"nodes {node_id} and {seen.node_id} have applied all records below {seen.applied_offset} "
                f"but have images with the hashes {known:012x} and {seen.image_hash:012x}"
            )


class SavedVotersAreCommitted(Checker):
    """The voters in a quorum-state file are the voters of the newest committed voter record below the offset in the
    file (hole 22 of the KIP-595 draft)."""

    invariant = "persisted voters are committed"
    aspects = 0

    def __init__(self, committed: CommittedDataIsImmutable) -> None:
        self._committed = committed
        self._searched = 0
        self._found: list[tuple[int, tuple[int, ...]]] = []
        """(offset, voters) of each committed voter record."""

    def saved_voters(self, saved: SavedVoters) -> None:
        self._search()
        known = [voters for offset, voters in self._found if offset < saved.applied_offset]
        expected = known[-1] if known else ()
        if saved.voters != expected or saved.applied_offset > self._committed.end_offset:
            raise self.violation(
                f"the quorum-state of node {saved.node_id} has the voters {saved.voters} as of offset "
                f"{saved.applied_offset}, expected {expected}; committed data ends at {self._committed.end_offset}"
            )

    def _search(self) -> None:
        for batch in self._committed.batches[self._searched :]:
            if batch.is_control:
                for header in headers(batch.data):
                    for record in voter_records(batch.data, header):
                        self._found.append((record.offset, record.assignment.current.ids))
        self._searched = len(self._committed.batches)
