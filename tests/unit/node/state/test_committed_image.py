from __future__ import annotations

import pytest

from quorumd.node.state.committed_image import CommittedImage
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

    def ask(self) -> None:
        self.image.when_committed(lambda committed: self.outcomes.append((committed, self.config().copy())))

    def take_office(self) -> None:
        self.proposals.await_inherited(self.log.end_offset)
        self.lead()
        self.run_turns()

    def leave_office(self) -> None:
        self.proposals.lost()
        assert self.outcomes == [], "the image still holds what is not committed"
        self.machine.on_leadership_lost()


@pytest.fixture
def harness() -> ImageHarness:
    return ImageHarness()


def test_the_image_of_a_leader_is_committed_with_the_last_record_of_it(harness: ImageHarness) -> None:
    harness.take_office()
    harness.ask()
    assert harness.outcomes == []
    harness.machine.committed(harness.log.end_offset)
    harness.proposals.committed(harness.log.end_offset)
    ((committed, configs),) = harness.outcomes
    assert (committed, len(configs)) == (True, 11)


def test_who_asked_a_leader_that_was_replaced_hears_of_it_when_all_is_taken_back(
    harness: ImageHarness,
) -> None:
    harness.take_office()
    harness.ask()
    harness.leave_office()
    assert not harness.machine.is_readable
    harness.run_turns()
    assert harness.outcomes == [(False, {"a": "1"})]


def test_an_image_that_is_being_taken_back_is_not_committed(harness: ImageHarness) -> None:
    harness.take_office()
    harness.leave_office()
    harness.ask()
    assert harness.outcomes == []
    harness.run_turns()
    assert harness.outcomes == [(False, {"a": "1"})]


def test_nor_is_it_when_the_node_leads_again_meanwhile(harness: ImageHarness) -> None:
    harness.take_office()
    harness.leave_office()
    harness.proposals.await_inherited(harness.log.end_offset)
    harness.lead()
    harness.ask()
    harness.run_turns()
    harness.proposals.committed(harness.log.end_offset)
    assert [committed for committed, _ in harness.outcomes] == [False]


def test_the_image_of_a_follower_is_committed(harness: ImageHarness) -> None:
    harness.run_turns()
    harness.ask()
    assert harness.outcomes == [(True, {"a": "1"})]


def test_an_image_with_a_part_of_a_batch_is_asked_again_when_it_has_all_of_it(harness: ImageHarness) -> None:
    harness.run_turns()
    harness.machine = harness.make_machine(record_ms=1.0)
    harness.image = CommittedImage(harness.machine, harness.proposals)
    harness.machine.committed(harness.append(*((f"n{number}", "v") for number in range(250))))
    while harness.machine.is_readable:
        harness.turns.pop(0)()
    harness.ask()
    assert harness.outcomes == []
    harness.run_turns()
    ((committed, configs),) = harness.outcomes
    assert (committed, len(configs)) == (False, 261)
