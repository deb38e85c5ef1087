"""The broker gets every committed batch once and in order, or a snapshot instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import CorruptLog, MalformedMessage, StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.node.broker.metadata_feed import MetadataFeed
from quorumd.node.node import Node
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.support.node.nodes import Cluster


class Reader:
    """Records what it gets."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int]] = []
        self.loaded: list[int] = []
        self.error: Exception | None = None

    def apply(self, data: bytes, header: BatchHeader) -> None:
        if self.error is not None:
            raise self.error
        assert len(data) > header.position
        self.batches.append((header.base_offset, header.end_offset))

    def load(self, image: ClusterImage, end_offset: int) -> None:
        assert image.features
        self.loaded.append(end_offset)


class Feeding:
    """A feed on the log of a node that leads alone."""

    def __init__(self) -> None:
        self.cluster = Cluster().start()
        self.node: Node = self.cluster.leader()
        self.reader = Reader()
        self.slices: list[Callable[[], None]] = []
        self.feed = self._feed()

    def _feed(self) -> MetadataFeed:
        disk, clock = self.cluster.disks[1], self.node.clock
        return MetadataFeed(self.node.log, clock, disk, self.slices.append, self.reader)

    def run(self) -> int:
        """Run all slices and return their number."""
        count = 0
        while self.slices:
            self.slices.pop(0)()
            count += 1
        return count


def test_every_committed_batch_arrives_once_and_in_order() -> None:
    feeding = Feeding()
    high_watermark = feeding.node.engine.high_watermark
    feeding.feed.start(None, 3)
    feeding.run()
    feeding.feed.committed(high_watermark)
    feeding.feed.committed(3)
    feeding.run()
    ends = [end for _, end in feeding.reader.batches]
    assert [base for base, _ in feeding.reader.batches] == [0, *ends[:-1]]
    assert ends[-1] == high_watermark == feeding.feed.next_offset


def test_batches_above_the_high_watermark_are_held_back() -> None:
    feeding = Feeding()
    feeding.feed.start(None, 0)
    feeding.run()
    assert feeding.reader.batches == []
    first_end = next(headers(feeding.node.log.read(0, 1 << 20))).end_offset
    feeding.feed.committed(first_end)
    feeding.run()
    assert feeding.reader.batches == [(0, first_end)]
    assert not feeding.slices


def test_work_is_done_in_slices() -> None:
    feeding = Feeding()
    feeding.cluster.record_ms = 10.0
    feeding.cluster.kill(1)
    feeding.node = feeding.cluster.start_node(1)
    feeding.cluster.leader()
    feeding.feed = feeding._feed()
    feeding.feed.start(None, feeding.node.engine.high_watermark)
    assert feeding.run() >= len(feeding.reader.batches) > 1


def test_snapshot_replaces_the_beginning_of_the_log() -> None:
    feeding = Feeding()
    snapshot = build_snapshot(feeding)
    feeding.feed.start(snapshot, feeding.node.engine.high_watermark)
    feeding.run()
    assert feeding.reader.loaded == [snapshot.offset]
    assert feeding.feed.next_offset >= snapshot.offset
    assert all(base >= snapshot.offset for base, _ in feeding.reader.batches)


def build_snapshot(feeding: Feeding) -> OffsetAndEpoch:
    """Create a topic, and build a snapshot at the high watermark."""
    topics = CreateTopicsRequest([CreatableTopic("orders", 1, 1)], 5000)
    feeding.cluster.client().request(topics, 7)
    offset = feeding.node.engine.high_watermark
    feeding.node.core.snapshots._build(offset, 0.0)
    feeding.cluster.run_until(lambda: feeding.node.log.latest_snapshot)
    snapshot = feeding.node.log.latest_snapshot
    assert snapshot is not None
    return snapshot


def test_snapshot_replaces_records_that_the_log_no_longer_has() -> None:
    feeding = Feeding()
    feeding.feed.start(None, 1)
    feeding.run()
    snapshot = build_snapshot(feeding)
    feeding.node.log.start_offset = snapshot.offset
    feeding.feed.committed(snapshot.offset)
    feeding.run()
    assert feeding.reader.loaded == [snapshot.offset]
    assert feeding.feed.next_offset == snapshot.offset


@pytest.mark.parametrize("has_snapshot", [False, True])
def test_records_without_a_snapshot_that_covers_them_stop_the_node(has_snapshot: bool) -> None:
    feeding = Feeding()
    if has_snapshot:
        build_snapshot(feeding)
    feeding.node.log.start_offset = feeding.node.engine.high_watermark + 1
    feeding.feed.start(None, feeding.node.engine.high_watermark)
    with pytest.raises(StorageError, match="no snapshot covers"):
        feeding.run()


def test_record_of_a_newer_version_stops_the_node() -> None:
    feeding = Feeding()
    feeding.reader.error = MalformedMessage("at offset 0: unknown record")
    feeding.feed.start(None, feeding.node.engine.high_watermark)
    with pytest.raises(CorruptLog, match="offset 0: unknown record"):
        feeding.run()


def test_one_slice_is_scheduled_at_a_time() -> None:
    feeding = Feeding()
    feeding.feed.start(None, 3)
    feeding.feed.committed(feeding.node.engine.high_watermark)
    assert len(feeding.slices) == 1
    feeding.run()
    feeding.feed.committed(3)
    assert feeding.slices == []
