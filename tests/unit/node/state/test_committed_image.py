from __future__ import annotations

from typing import Any

import pytest

from quorumd.node.state.committed_image import CommittedImage
from quorumd.node.state.proposals import Proposals
from tests.unit.node.state.test_state_machine import World as StateWorld


class World(StateWorld):
    """A node of which the log holds two batches more than are committed, a record of which takes half a slice."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = self.make_machine(record_ms=2.5)
        self.proposals = Proposals(
            lambda values: None, lambda turn: None, lambda: True, lambda: 0.0, _nothing
        )
        self.image = CommittedImage(self.machine, self.proposals)
        self.outcomes: list[tuple[bool, dict[str, str]]] = []
        self.machine.committed(self.append(("a", "1")))
        for number in range(10):
            self.append((f"k{number}", "v"))

    def ask(self) -> None:
        self.image.when_committed(lambda committed: self.outcomes.append((committed, dict(self.configs()))))

    def take_office(self) -> None:
        self.proposals.await_inherited(self.log.end_offset)
        self.lead()
        self.run_turns()

    def leave_office(self) -> None:
        self.proposals.lost()
        assert self.outcomes == [], "the image still holds what is not committed"
        self.machine.on_leadership_lost()


def _nothing(*arguments: Any) -> None:
    del arguments


@pytest.fixture
def world() -> World:
    return World()


def test_the_image_of_a_leader_is_committed_with_the_last_record_of_it(world: World) -> None:
    world.take_office()
    world.ask()
    assert world.outcomes == []
    world.machine.committed(world.log.end_offset)
    world.proposals.committed(world.log.end_offset)
    ((committed, configs),) = world.outcomes
    assert (committed, len(configs)) == (True, 11)


def test_who_asked_a_leader_that_was_replaced_hears_of_it_when_all_is_taken_back(world: World) -> None:
    world.take_office()
    world.ask()
    world.leave_office()
    assert not world.machine.is_readable
    world.run_turns()
    assert world.outcomes == [(False, {"a": "1"})]


def test_an_image_that_is_being_taken_back_is_not_committed(world: World) -> None:
    world.take_office()
    world.leave_office()
    world.ask()
    assert world.outcomes == []
    world.run_turns()
    assert world.outcomes == [(False, {"a": "1"})]


def test_nor_is_it_when_the_node_leads_again_meanwhile(world: World) -> None:
    world.take_office()
    world.leave_office()
    world.proposals.await_inherited(world.log.end_offset)
    world.lead()
    world.ask()
    world.run_turns()
    world.proposals.committed(world.log.end_offset)
    assert [committed for committed, _ in world.outcomes] == [False]


def test_the_image_of_a_follower_is_committed(world: World) -> None:
    world.run_turns()
    world.ask()
    assert world.outcomes == [(True, {"a": "1"})]


def test_an_image_with_a_part_of_a_batch_is_asked_again_when_it_has_all_of_it(world: World) -> None:
    world.run_turns()
    world.machine = world.make_machine(record_ms=1.0)
    world.image = CommittedImage(world.machine, world.proposals)
    world.machine.committed(world.append(*((f"n{number}", "v") for number in range(250))))
    while world.machine.is_readable:
        world.turns.pop(0)()
    world.ask()
    assert world.outcomes == []
    world.run_turns()
    ((committed, configs),) = world.outcomes
    assert (committed, len(configs)) == (False, 261)
