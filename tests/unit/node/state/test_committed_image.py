from __future__ import annotations

import pytest

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.undo_log import UndoEntry
from quorumd.node.state.committed_image import CommittedImage
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import size_of_records
from tests.support.node.parts import NodeParts


class ImageHarness(NodeParts):
    """A log with ten batches above the high watermark; a slice of the state machine applies two records."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = self.make_machine(record_ms=2.5)
        self.image = CommittedImage(self.machine, self.proposals)
        self.outcomes: list[tuple[bool, dict[str, str]]] = []
        self.machine.committed(self.append(("a", "1")))
        for number in range(10):
            self.append((f"k{number}", "v"))

    def await_commit(self) -> None:
        self.image.when_committed(lambda committed: self.outcomes.append((committed, self.config().copy())))

    def begin_leadership(self) -> None:
        self.proposals.await_uncommitted(self.log.end_offset)
        self.lead()
        self.run_turns()

    def propose_level(self, level: int) -> None:
        """Finalize a level of "f" as leader."""
        record, changes = FeatureLevelRecord("f", level), list[UndoEntry]()
        self.machine.image.apply(record, changes)
        values = [encode_record(record, 0)]
        self.proposals.propose(values, size_of_records(values), changes, lambda committed: None)

    def features(self) -> tuple[dict[str, int], int]:
        levels, end_offset = self.image.features()
        return dict(levels), end_offset

    def end_leadership(self) -> None:
        self.proposals.on_leadership_lost()
        assert self.outcomes == [], "the image still has uncommitted records"
        self.machine.on_leadership_lost()


@pytest.fixture
def harness() -> ImageHarness:
    return ImageHarness()


def test_image_of_a_leader_is_committed_with_its_last_record(harness: ImageHarness) -> None:
    harness.begin_leadership()
    harness.await_commit()
    assert harness.outcomes == []
    harness.machine.committed(harness.log.end_offset)
    harness.proposals.committed(harness.log.end_offset)
    ((committed, configs),) = harness.outcomes
    assert (committed, len(configs)) == (True, 11)


def test_callback_of_a_former_leader_is_called_after_the_rollback(
    harness: ImageHarness,
) -> None:
    harness.begin_leadership()
    harness.await_commit()
    harness.end_leadership()
    assert not harness.machine.is_readable
    harness.run_turns()
    assert harness.outcomes == [(False, {"a": "1"})]


def test_image_during_a_rollback_is_not_committed(harness: ImageHarness) -> None:
    harness.begin_leadership()
    harness.end_leadership()
    harness.await_commit()
    assert harness.outcomes == []
    harness.run_turns()
    assert harness.outcomes == [(False, {"a": "1"})]


def test_image_during_a_rollback_is_not_committed_after_a_reelection(harness: ImageHarness) -> None:
    harness.begin_leadership()
    harness.end_leadership()
    harness.proposals.await_uncommitted(harness.log.end_offset)
    harness.lead()
    harness.await_commit()
    harness.run_turns()
    harness.proposals.committed(harness.log.end_offset)
    assert [committed for committed, _ in harness.outcomes] == [False]


def test_image_of_a_follower_is_committed(harness: ImageHarness) -> None:
    harness.run_turns()
    harness.await_commit()
    assert harness.outcomes == [(True, {"a": "1"})]


def test_partially_applied_image_is_reported_when_it_is_readable(harness: ImageHarness) -> None:
    harness.run_turns()
    harness.machine = harness.make_machine(record_ms=1.0)
    harness.image = CommittedImage(harness.machine, harness.proposals)
    harness.machine.committed(harness.append(*((f"n{number}", "v") for number in range(250))))
    while harness.machine.is_readable:
        harness.turns.pop(0)()
    harness.await_commit()
    assert harness.outcomes == []
    harness.run_turns()
    ((committed, configs),) = harness.outcomes
    assert (committed, len(configs)) == (False, 261)


def test_features_of_a_leader_are_those_that_are_committed(harness: ImageHarness) -> None:
    harness.begin_leadership()
    harness.machine.committed(harness.log.end_offset)
    harness.proposals.committed(harness.log.end_offset)
    assert harness.features() == ({}, 11)
    harness.propose_level(1)
    assert harness.features() == ({}, 11), "pending"
    harness.proposals.append_pending()
    harness.machine.appended(12)
    harness.propose_level(2)
    assert harness.features() == ({}, 11), "appended"
    harness.machine.committed(12)
    harness.proposals.committed(12)
    assert harness.features() == ({"f": 1}, 12)
    harness.proposals.append_pending()
    harness.machine.appended(13)
    harness.machine.committed(13)
    harness.proposals.committed(13)
    assert [harness.features(), harness.features()] == [({"f": 2}, 13)] * 2


def test_features_of_a_former_leader_are_committed_during_the_rollback(harness: ImageHarness) -> None:
    harness.write(FeatureLevelRecord("f", 1))
    harness.append(*((f"n{number}", "v") for number in range(5)))
    harness.begin_leadership()
    assert harness.machine.image.features == {"f": 1}
    assert harness.features() == ({}, 1)
    harness.end_leadership()
    assert not harness.machine.is_readable
    assert harness.features() == ({}, 1)
    harness.run_turns()
    assert harness.features() == ({}, 1)


def test_features_are_those_of_the_current_image_after_a_snapshot_replaced_it(harness: ImageHarness) -> None:
    for name in ("before", "after"):
        harness.machine.image = ClusterImage()
        harness.machine.image.apply(FeatureLevelRecord(name, 1), [])
        assert harness.features()[0] == {name: 1}
