"""For any records in any order: the image, its hash and its indexes follow from its records, and every change can be
undone."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.image_records import snapshot_frames
from quorumd.controller.record_versions import encode_for_version
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.end_transaction_record import EndTransactionRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.simulator.workload.kept_records import draw_kept_record
from tests.support.protocol.random_records import BROKERS, RandomRecords, partitions_of

METADATA_VERSION = 30
"""Messages, the first with every field set."""
STEPS = 250


def index_of(image: ClusterImage) -> tuple[Any, ...]:
    index = image.index
    return (
        {broker_id: set(index.partitions_with_broker(broker_id)) for broker_id in BROKERS},
        dict(index.leader_counts),
        set(index.leaderless),
        set(index.reassigning),
    )


def counted(image: ClusterImage) -> tuple[Any, ...]:
    """The expected index, computed from every partition."""
    all_of_them = partitions_of(image)
    leaders = [partition.leader for partition in all_of_them.values()]
    return (
        {
            broker_id: {where for where, p in all_of_them.items() if broker_id in (*p.isr, *p.elr)}
            for broker_id in BROKERS
        },
        {broker_id: leaders.count(broker_id) for broker_id in set(leaders) - {-1}},
        {where for where, partition in all_of_them.items() if partition.leader == -1},
        {where for where, partition in all_of_them.items() if partition.adding or partition.removing},
    )


class Walk:
    """`image` applies all records; `ahead` applies those of transactions immediately, without markers."""

    def __init__(self, seed: int) -> None:
        self.image, self.ahead = ClusterImage(), ClusterImage()
        self.lots = RandomRecords(seed, self.ahead)
        self.random = Random(seed)
        self.changes: list[UndoEntry] = []
        self.changes_ahead: list[UndoEntry] = []
        self.began: tuple[int, object, int] | None = None
        """At the start of the open transaction: the number of changes ahead, fingerprint and hash."""
        self.marks: list[Any] = []
        self.write(encode_for_version(FeatureLevelRecord("metadata.version", METADATA_VERSION), 0))

    def step(self) -> None:
        what = self.lots.between(1, 40)
        if what == 1 and self.began is None:
            self.began = len(self.changes_ahead), self.image.fingerprint(), self.image.hash
            self.image.apply(BeginTransactionRecord(), self.changes)
        elif what <= 5 and self.began is not None:
            self.end_transaction(aborts=what % 2 == 0)
        elif what <= 7 and self.marks:
            self.undo_to(self.marks[self.lots.between(0, len(self.marks) - 1)])
        elif what <= 12:
            self.marks.append((len(self.changes), len(self.changes_ahead), self.began, self.seen()))
        elif what <= 18:
            self.write(draw_kept_record(self.random, self.ahead.opaque_records.values()))
        else:
            record = self.lots.record()
            if record is not None:
                self.write(encode_for_version(record, METADATA_VERSION))

    def write(self, frame: bytes) -> None:
        record = decode_record(frame)
        self.image.apply(record, self.changes, frame)
        self.ahead.apply(record, self.changes_ahead, frame)

    def end_transaction(self, aborts: bool) -> None:
        assert self.began is not None
        if aborts:
            undo(reversed(self.changes_ahead[self.began[0] :]))
            del self.changes_ahead[self.began[0] :]
            # Undo must not restore a state that never existed.
            while self.marks and self.marks[-1][2] is not None:
                self.marks.pop()
        self.image.apply(AbortTransactionRecord() if aborts else EndTransactionRecord(), self.changes)
        self.began = None

    def undo_to(self, mark: Any) -> None:
        length, length_ahead, self.began, seen = mark
        while self.marks[-1] is not mark:
            self.marks.pop()
        undo(reversed(self.changes[length:]))
        undo(reversed(self.changes_ahead[length_ahead:]))
        del self.changes[length:], self.changes_ahead[length_ahead:]
        assert self.seen() == seen

    def seen(self) -> object:
        image, ahead = self.image, self.ahead
        return (
            (image.fingerprint(), image.hash, index_of(image), set(image.configs), image.in_transaction),
            (ahead.fingerprint(), ahead.hash, index_of(ahead), set(ahead.configs)),
        )

    def check(self) -> None:
        image, ahead = self.image, self.ahead
        assert image.in_transaction == (self.began is not None)
        if self.began is not None:
            assert (image.fingerprint(), image.hash) == self.began[1:]
        else:
            assert (image.fingerprint(), image.hash) == (ahead.fingerprint(), ahead.hash)
        assert index_of(image) == counted(image)
        assert index_of(ahead) == counted(ahead)

    def check_that_its_records_make_it_again(self) -> None:
        again, other = ClusterImage(), ClusterImage()
        frames = list(snapshot_frames(self.ahead))
        for frame in frames:
            again.apply(decode_record(frame), [], frame)
        # In another order that keeps partitions after their topics.
        Random(len(frames)).shuffle(frames)
        for frame in sorted(frames, key=lambda frame: frame[1] == PartitionRecord.API_KEY):
            other.apply(decode_record(frame), [], frame)
        for image in (again, other):
            assert image.fingerprint() == self.ahead.fingerprint()
            assert image.hash == self.ahead.hash
            assert index_of(image) == index_of(self.ahead)
        assert list(snapshot_frames(other)) == list(snapshot_frames(again))


@pytest.mark.parametrize("seed", range(16))
def test_image_matches_records_and_undo_restores_it(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(STEPS):
        walk.step()
        walk.check()
        walk.check_that_its_records_make_it_again()
