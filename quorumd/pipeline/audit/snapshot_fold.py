"""Compares snapshots with the result of replaying the log from offset 0 or from the previous snapshot.

Records are applied to an image one by one in Python, as a node applies them, up to a limit.

A stock node may keep configs of a removed topic: those that were set in the batch of records in which it was removed,
if the topic had none before. Batches differ between nodes, and so do their snapshots. A later topic with this name
has these configs on this node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.undo_log import UndoEntry
from quorumd.errors import MalformedMessage, StorageError, UnsupportedVersion
from quorumd.ids import OffsetAndEpoch
from quorumd.log.log_reader import read_log
from quorumd.log.snapshot_file import read_batches
from quorumd.pipeline.audit.commitment import Pair
from quorumd.pipeline.audit.copies import Copy
from quorumd.pipeline.audit.findings import Finding, Severity
from quorumd.pipeline.audit.snapshots import SoundSnapshot
from quorumd.pipeline.copies.log_files import CopyDirectory
from quorumd.pipeline.copies.read_only_disk import ReadOnlyDisk
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import values

_PARTS = ("configs", "features", "brokers", "topics", "producer ids", "opaque records")
"""The parts of `ClusterImage.fingerprint`."""


Config = tuple[tuple[int, str], str, str]
"""Resource, key and value."""


class Log(NamedTuple):
    """The copies of a log and their comparisons."""

    directories: Mapping[int, CopyDirectory]
    copies: Mapping[int, Copy]
    pairs: Mapping[tuple[int, int], Pair]

    def holder(self, snapshot: SoundSnapshot, start: int) -> Copy | None:
        """Return an undamaged copy equal to the copy of the snapshot's node from `start` to the snapshot's end."""
        node, end = snapshot.file.node, snapshot.file.end_offset
        own = self.copies[node]
        for copy in sorted(self.copies.values(), key=lambda copy: (copy.node != node, copy.node)):
            reaches = copy.start_offset <= start and copy.end_offset >= end
            is_same = copy is own or self.pairs[node, copy.node].parts_at >= min(end, own.end_offset)
            is_sound = not any(d.offset_lo < end and d.offset_hi >= start for d in copy.damages)
            if reaches and is_same and is_sound:
                return copy
        return None


class _Image:
    """The image of the log below offset `end`; empty at first."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.end = 0
        self.of_removed_topics: set[Config] = set()
        """Configs that topics had when they were removed."""

    def load(self, snapshot: SoundSnapshot) -> None:
        """Load the records of a snapshot into an empty image."""
        self._apply(read_batches(ReadOnlyDisk(), snapshot.file.path, snapshot.id))
        self.end = snapshot.file.end_offset

    def read_log(self, directory: str, end: int) -> None:
        """Apply the records of the log in a directory up to `end`."""
        self._apply(read_log(ReadOnlyDisk(), directory, self.end, end))
        self.end = end

    def _apply(self, batches: Iterable[tuple[bytes, BatchHeader]]) -> None:
        for data, header in batches:
            if header.is_control:
                continue
            changes: list[UndoEntry] = []
            for value in values(data, header):
                record = decode_record(value)
                if isinstance(record, RemoveTopicRecord) and record.topic_id in self.image.topics:
                    resource = (ConfigResourceType.TOPIC, self.image.topics[record.topic_id].name)
                    configs = self.image.configs.get(resource, {})
                    self.of_removed_topics |= {(resource, key, found) for key, found in configs.items()}
                self.image.apply(record, changes, value)

    def configs(self) -> set[Config]:
        """Return the configs of all resources."""
        return {
            (resource, *item) for resource, values in self.image.configs.items() for item in values.items()
        }

    def stale_configs(self, of_removed_topics: set[Config]) -> set[Config]:
        """Return the configs of topics that do not exist, and the configs of earlier topics of the same name."""
        return {
            config
            for config in self.configs()
            if config[0][0] == ConfigResourceType.TOPIC
            and (config[0][1] not in self.image.topic_ids or config in of_removed_topics)
        }


def fold_snapshots(
    log: Log, snapshots: Sequence[SoundSnapshot], most_records: int, explained: set[str]
) -> Iterator[Finding]:
    """Compare snapshots with the log, applying at most `most_records`.

    Snapshots that could not be compared are reported as INFO. The paths of snapshots that match the log, except for
    stale configs, are added to `explained`.
    """
    by_id: dict[OffsetAndEpoch, list[SoundSnapshot]] = {}
    for snapshot in snapshots:
        # Stock Kafka formats a node with a snapshot at offset 0; the first leader writes its records to the log.
        if snapshot.id.offset:
            by_id.setdefault(snapshot.id, []).append(snapshot)
    before: SoundSnapshot | None = None
    image: _Image | None = None
    left = most_records
    for snapshot_id in sorted(by_id):
        same = by_id[snapshot_id]
        start = before.file.end_offset if before else 0
        holder = next((copy for each in same if (copy := log.holder(each, start))), None)
        cost = snapshot_id.offset - start + sum(each.summary.records for each in same)
        if image is None and before is not None:
            cost += before.summary.records
        if holder is None:
            why_not = f"no sound copy of the log begins at or before offset {start}"
        elif cost > left:
            why_not = f"it requires applying {cost} records, and {left} remain of --fold-records"
        else:
            left -= cost
            try:
                image = image or _begin(before)
                image.read_log(log.directories[holder.node].path, snapshot_id.offset)
                for each in same:
                    findings = list(_compare(image, each, holder, start))
                    yield from findings
                    if all(finding.severity < Severity.CRITICAL for finding in findings):
                        explained.add(each.file.path)
                before = same[0]
                continue
            except (StorageError, MalformedMessage, UnsupportedVersion) as error:
                why_not = str(error)
        yield _not_compared(same[0], why_not)
        before, image = same[0], None


def _begin(before: SoundSnapshot | None) -> _Image:
    image = _Image()
    if before is not None:
        image.load(before)
    return image


def _compare(image: _Image, snapshot: SoundSnapshot, holder: Copy, start: int) -> Iterator[Finding]:
    origin = f"the snapshot at offset {start} and the following log" if start else "the log"
    origin += f" of node {holder.node}"
    try:
        loaded = _begin(snapshot)
    except MalformedMessage as error:
        detail = f"it cannot be loaded, unlike {origin}: {error}"
        yield _about(snapshot, Severity.CRITICAL, "SNAPSHOT_DIFFERS", detail, start, committed=True)
        return
    if loaded.image.hash == image.image.hash:
        return
    ours, theirs = loaded.image.fingerprint(), image.image.fingerprint()
    different = [name for name, one, two in zip(_PARTS, ours, theirs, strict=True) if one != two]
    stale = loaded.stale_configs(image.of_removed_topics)
    if different == ["configs"] and loaded.configs() ^ image.configs() <= (
        stale | image.stale_configs(image.of_removed_topics)
    ):
        yield from _stale_configs(snapshot, loaded, stale - image.configs())
        return
    detail = f"it differs from the state in {origin}: {', '.join(different)}"
    yield _about(snapshot, Severity.CRITICAL, "SNAPSHOT_DIFFERS", detail, start, committed=True)


def _stale_configs(snapshot: SoundSnapshot, loaded: _Image, stale: set[Config]) -> Iterator[Finding]:
    names = sorted({name for (_, name), _, _ in stale})
    reused = [name for name in names if name in loaded.image.topic_ids]
    if reused:
        detail = f"topics have configs of removed topics of the same name on this node: {', '.join(reused)}"
        yield _about(snapshot, Severity.WARNING, "STALE_CONFIGS", detail, 0)
    elif names:
        detail = f"configs of removed topics, which stock Kafka may keep: {', '.join(names)}"
        yield _about(snapshot, Severity.INFO, "STALE_CONFIGS", detail, 0)


def _not_compared(snapshot: SoundSnapshot, why: str) -> Finding:
    return _about(snapshot, Severity.INFO, "SNAPSHOT_NOT_COMPARED", f"not compared with the log: {why}", 0)


def _about(
    snapshot: SoundSnapshot,
    severity: Severity,
    code: str,
    detail: str,
    start: int,
    committed: bool | None = None,
) -> Finding:
    file = snapshot.file
    return Finding(
        severity, code, detail, file.node, segment=file.name, offset_lo=start, offset_hi=file.end_offset,
        epoch_lo=file.epoch, epoch_hi=file.epoch, committed=committed,
    )  # fmt: skip
