"""Invariants of finalized features, replayed from the committed log without the controller's code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quorumd.errors import ErrorCode
from quorumd.ids import OffsetAndEpoch
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from quorumd.protocol.metadata_record import decode_frame
from quorumd.protocol.record_batch import values
from quorumd.simulator.checkers.base import HIGH_WATERMARK, Checker, InvariantViolation, Observation
from quorumd.simulator.checkers.logs import CommittedDataIsImmutable

METADATA_VERSION: Final = "metadata.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"
KRAFT_VERSION: Final = "kraft.version"
NEEDS: Final = {
    ("PartitionRecord", 2): 23,
    ("PartitionChangeRecord", 2): 23,
    ("ClearElrRecord", 0): 23,
    ("RegisterBrokerRecord", 4): 30,
    ("BrokerRegistrationChangeRecord", 3): 30,
    ("UnregisterControllerRecord", 0): 33,
}
"""The lowest metadata version at which readers know a record version."""
LOSSY: Final = frozenset(NEEDS.values()) | {32}
"""Metadata versions from which no downgrade to a lower version is allowed."""
UNKNOWN: Final = 21
"""The metadata version that readers assume while no level is known."""


class FeaturesAreFinalized(Checker):
    """Levels change only as requested and only where Kafka allows it; records and brokers conform to them.

    The operator reports every request (`requested`) and response (`responded`).
    """

    invariant = "finalized levels change only on request"
    records_invariant = "no record is above the finalized metadata version"
    brokers_invariant = "registered brokers support the finalized levels"
    aspects = HIGH_WATERMARK

    def __init__(self, committed: CommittedDataIsImmutable) -> None:
        self.levels: dict[str, int] = {}
        """The committed levels."""
        self._committed = committed
        self._read = 0
        self._brokers: dict[int, dict[str, tuple[int, int]]] = {}
        self._wanted: list[Mapping[str, int]] = []
        """The levels of each request, by number; empty if it was rejected or changes nothing."""
        self._open: set[int] = set()
        """Requests of unknown outcome."""
        self.changes = 0

    def requested(self, wanted: Mapping[str, int]) -> int:
        """Record a request for these levels, empty if it must not change any. Return its number."""
        self._wanted.append(wanted)
        self._open.add(len(self._wanted) - 1)
        return len(self._wanted) - 1

    def responded(self, number: int, code: ErrorCode) -> None:
        """Check the response to a request."""
        self._read_committed()
        if code is ErrorCode.INVALID_UPDATE_VERSION:
            self._open.discard(number)
            self._wanted[number] = {}
        elif code is ErrorCode.NONE:
            self._open.discard(number)
            others = any(self._wanted[other] for other in self._open)
            lacking = {k: v for k, v in self._wanted[number].items() if self._level(k) != v}
            if lacking and not others:
                raise self.violation(f"{lacking} were acknowledged, committed are {self.levels}")

    def observed(self, seen: Observation) -> None:
        self._read_committed()

    def snapshot_seen(self, node_id: int, snapshot: OffsetAndEpoch, data: bytes) -> None:
        where = f"the snapshot {snapshot} of node {node_id}"
        level = 0
        for header in headers(data):
            for frame in values(data, header) if not header.is_control else ():
                record, version = decode_frame(frame)
                if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
                    level = record.feature_level
                self._check_version(record.NAME, version, level, where)

    def _read_committed(self) -> None:
        batches = self._committed.batches
        while self._read < len(batches):
            batch = batches[self._read]
            self._read += 1
            if not batch.is_control:
                self._apply(batch.data, f"the batch at offset {batch.base_offset}")

    def _apply(self, data: bytes, where: str) -> None:
        changed: dict[str, int] = {}
        registers = False
        level = self._level(METADATA_VERSION)
        for header in headers(data):
            for frame in values(data, header):
                record, version = decode_frame(frame)
                self._check_version(record.NAME, version, level, where)
                if isinstance(record, FeatureLevelRecord):
                    changed[record.name] = record.feature_level
                    level = changed.get(METADATA_VERSION, level)
                elif isinstance(record, RegisterBrokerRecord):
                    registers = True
                    self._brokers[record.broker_id] = {
                        f.name: (f.min_supported_version, f.max_supported_version) for f in record.features
                    }
                elif isinstance(record, UnregisterBrokerRecord):
                    self._brokers.pop(record.broker_id, None)
        if changed:
            self._check_change(changed, where)
            self.levels |= changed
        if changed or registers:
            self._check_brokers(where)

    def _check_version(self, name: str, version: int, level: int, where: str) -> None:
        needed = NEEDS.get((name, version), 0)
        if needed > max(level, UNKNOWN):
            text = f"{where} has {name} in version {version}, which readers at metadata.version {level} do not know"
            raise InvariantViolation(self.records_invariant, text)

    def _check_change(self, changed: Mapping[str, int], where: str) -> None:
        before = self._level(METADATA_VERSION)
        after = changed.get(METADATA_VERSION, before)
        if not before:
            return  # Initial levels of a cluster.
        if not self._was_wanted(changed):
            raise self.violation(f"{where} sets {changed}, without a request for it")
        if any(after < lossy <= before for lossy in LOSSY):
            raise self.violation(f"{where} takes metadata.version from {before} down to {after}")
        if changed.get(ELR_VERSION, self._level(ELR_VERSION)) and after < NEEDS["PartitionRecord", 2]:
            raise self.violation(f"{where} leaves the ELR on at metadata.version {after}")
        self.changes += 1

    def _was_wanted(self, changed: Mapping[str, int]) -> bool:
        """Return whether one request, or several pending ones that a leader may combine, wanted this change."""
        if any(wanted and changed.items() <= wanted.items() for wanted in self._wanted):
            return True
        under_way = {level for number in self._open for level in self._wanted[number].items()}
        return changed.items() <= under_way

    def _check_brokers(self, where: str) -> None:
        for broker_id, ranges in self._brokers.items():
            for name, level in self.levels.items():
                lowest, highest = ranges.get(name, (0, 0))
                if not lowest <= level <= highest:
                    text = f"broker {broker_id} is registered, and supports {name} {lowest} to {highest}"
                    raise InvariantViolation(self.brokers_invariant, f"after {where} {text}, not {level}")

    def _level(self, name: str) -> int:
        return 1 if name == KRAFT_VERSION else self.levels.get(name, 0)
