"""Compare the images of the nodes with the images of their logs, and acknowledgements to brokers with a log."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.partition import PartitionId
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import decode_record
from tests.chaos.fleet.history import CommittedIsr, FleetHistory
from tests.support.log.log_files import batches, record_values
from tests.support.processes.daemons import Daemon, wait_for

FIGURES = re.compile(r"^quorumd_metadata_(applied_offset|image_hash)(?:\{.*\})? (\S+)$", re.MULTILINE)
RESPONSE_TIMEOUT_S = 5.0
STATISTICS_TIMEOUT_S = 30.0


class ImageStatistics(NamedTuple):
    """The hash of a node's image, to which all records below `applied_offset` are applied."""

    applied_offset: int
    hash: int


@dataclass(slots=True)
class FoldedLog:
    """The content of a log: the image at its end, and changes on the way."""

    image: ClusterImage = field(default_factory=ClusterImage)
    hashes: dict[int, int] = field(default_factory=dict)
    """Hashes of the image at some offsets."""
    isrs: set[CommittedIsr] = field(default_factory=set)
    """Every ISR of every partition."""
    created: set[str] = field(default_factory=set)
    """Names of created topics."""
    deleted: set[str] = field(default_factory=set)
    """Names of deleted topics."""


def reported_statistics(daemon: Daemon, end_offset: int) -> ImageStatistics:
    """Wait until a running node has applied all records below an offset, and return the hash of its image."""

    def read() -> ImageStatistics | None:
        with urlopen(f"http://127.0.0.1:{daemon.http_port}/metrics", timeout=RESPONSE_TIMEOUT_S) as response:
            values = {name: int(float(value)) for name, value in FIGURES.findall(response.read().decode())}
        figures = ImageStatistics(values["applied_offset"], values["image_hash"])
        return figures if figures.applied_offset >= end_offset else None

    return wait_for(
        f"node {daemon.node_id} to apply the records below {end_offset}", read, STATISTICS_TIMEOUT_S
    )


def fold(partition_directory: Path, offsets: Collection[int]) -> FoldedLog:
    """Apply the records of a log up to the last of `offsets`, and hash the image at each of them.

    Each offset is the end offset of a batch.
    """
    folded = FoldedLog()
    last = max(offsets)
    for path in sorted(partition_directory.glob("*.log")):
        for batch in batches(path):
            if batch.end_offset > last:
                return folded
            if not batch.is_control:
                for value in record_values(batch):
                    _apply(folded, decode_record(value))
            if batch.end_offset in offsets:
                folded.hashes[batch.end_offset] = folded.image.hash
    return folded


def _apply(folded: FoldedLog, record: object) -> None:
    if isinstance(record, RemoveTopicRecord):
        folded.deleted.add(folded.image.topics[record.topic_id].name)
    folded.image.apply(record, [])
    if isinstance(record, TopicRecord):
        folded.created.add(record.name)
    elif isinstance(record, PartitionRecord | PartitionChangeRecord):
        partition = folded.image.partition(PartitionId(record.topic_id, record.partition_id))
        assert partition is not None
        epochs = partition.partition_epoch, partition.leader_epoch
        folded.isrs.add(CommittedIsr(str(record.topic_id), record.partition_id, *epochs, partition.isr))


def image_differences(
    reported: Mapping[int, ImageStatistics], folded: Mapping[int, FoldedLog], end_offset: int
) -> Iterator[str]:
    """Yield differences between the images of the logs at `end_offset`, and between a node's image and its log."""
    hashes = {node: log.hashes.get(end_offset) for node, log in folded.items()}
    if len(set(hashes.values())) != 1 or None in hashes.values():
        yield f"the logs have different images below {end_offset}: hashes {hashes}"
    for node, (applied_offset, image_hash) in reported.items():
        expected = folded[node].hashes.get(applied_offset)
        if expected != image_hash:
            yield (
                f"the image of node {node} below {applied_offset} has the hash {image_hash}, "
                f"the image of its log has {expected}"
            )


def unfulfilled_acknowledgements(history: FleetHistory, folded: FoldedLog) -> Iterator[str]:
    """Yield acknowledgements to brokers and their administrator that are not in the log."""
    for isr in history.isrs:
        if isr not in folded.isrs:
            yield f"{isr} was acknowledged and is not in the log"
    for name in history.created:
        if name not in folded.created:
            yield f"the topic {name} was acknowledged and is not in the log"
    for name in history.deleted:
        if name not in folded.deleted:
            yield f"the topic {name} was deleted and still exists in the log"
