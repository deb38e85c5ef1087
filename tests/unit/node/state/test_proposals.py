from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from quorumd.controller.cluster_image import ClusterImage, ResourceType
from quorumd.controller.undo_log import UndoEntry
from quorumd.node.state import proposals as module
from quorumd.node.state.proposals import Proposals
from quorumd.protocol.record_batch import encode_batch

RESOURCE = (int(ResourceType.GROUP), "g")


class Log:
    """Takes batches and counts offsets; `is_open` False refuses them."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.end_offset = 10
        self.is_open = True

    def append(self, values: Sequence[bytes]) -> int | None:
        if not self.is_open:
            return None
        self.batches.append(list(values))
        self.end_offset += len(values)
        return self.end_offset


class World:
    def __init__(self) -> None:
        self.log = Log()
        self.turns: list[Callable[[], None]] = []
        self.is_flushing = False
        self.now = 1000.0
        self.latencies: list[tuple[float, int]] = []
        self.outcomes: list[tuple[str, bool]] = []
        self.image = ClusterImage()
        self.proposals = Proposals(
            self.log.append,
            self.turns.append,
            lambda: not self.is_flushing,
            lambda: self.now,
            lambda ms, count: self.latencies.append((ms, count)),
        )

    def set(self, key: str, value: str, records: int = 1) -> None:
        changes: list[UndoEntry] = []
        self.image.set_config(RESOURCE, key, value, changes)
        self.proposals.propose(
            [f"{key}={value}".encode()] * records, changes, lambda ok: self.outcomes.append((value, ok))
        )

    def end_turn(self) -> None:
        turns, self.turns[:] = list(self.turns), []
        for turn in turns:
            turn()


@pytest.fixture
def world() -> World:
    return World()


def test_what_comes_in_one_turn_is_one_batch(world: World) -> None:
    world.set("a", "1")
    world.set("b", "2")
    assert world.log.batches == []
    world.end_turn()
    assert world.log.batches == [[b"a=1", b"b=2"]]


def test_what_comes_while_a_flush_runs_waits_for_its_end(world: World) -> None:
    world.is_flushing = True
    world.set("a", "1")
    world.end_turn()
    world.set("b", "2")
    world.end_turn()
    assert world.log.batches == []
    world.proposals.on_flush_completed()
    assert world.log.batches == [[b"a=1", b"b=2"]]


def test_answered_when_the_high_watermark_passes_the_batch_and_not_before(world: World) -> None:
    world.set("a", "1", records=3)
    world.end_turn()
    world.now += 7
    world.proposals.committed(12)
    assert world.outcomes == []
    world.proposals.committed(13)
    assert world.outcomes == [("1", True)]
    assert world.latencies == [(7.0, 3)]
    assert world.proposals.is_empty


def test_losing_leadership_takes_changes_back_newest_first(world: World) -> None:
    world.image.set_config(RESOURCE, "a", "before", [])
    world.set("a", "1")
    world.end_turn()
    world.set("a", "2")
    world.set("b", "3")
    world.proposals.lost()
    assert world.image.config(RESOURCE) == {"a": "before"}
    assert world.outcomes == [("1", False), ("2", False), ("3", False)]
    world.end_turn()
    assert world.log.batches == [[b"a=1"]]


def test_committed_changes_are_not_taken_back(world: World) -> None:
    world.set("a", "1")
    world.end_turn()
    world.proposals.committed(11)
    world.set("a", "2")
    world.proposals.lost()
    assert world.image.config(RESOURCE) == {"a": "1"}


def test_a_log_that_takes_no_batch_fails_all_that_wait(world: World) -> None:
    world.set("a", "1")
    world.set("a", "2")
    world.log.is_open = False
    world.end_turn()
    assert world.outcomes == [("1", False), ("2", False)]
    assert world.image.config(RESOURCE) == {}
    assert world.proposals.is_empty


def test_a_read_waits_for_all_that_is_proposed(world: World) -> None:
    world.set("a", "1")
    settled: list[bool] = []
    world.proposals.on_commit(settled.append)
    assert settled == []
    world.proposals.committed(11)
    assert settled == [True]
    world.proposals.on_commit(settled.append)
    assert settled == [True, True]


def test_a_read_that_costs_the_leadership_has_seen_what_is_not_committed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It appends what waits, the disk is full, and the leader resigns from inside the append."""
    world.set("a", "1")
    world.end_turn()
    world.set("a", "2")
    world.log.is_open = False
    refuse = world.log.append

    def append(values: Sequence[bytes]) -> int | None:
        world.proposals.lost()
        return refuse(values)

    monkeypatch.setattr(world.proposals, "_append", append)
    settled: list[bool] = []
    world.proposals.on_commit(settled.append)
    assert settled == [False]


def test_batches_stay_below_the_limit_and_proposals_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_BYTES", 40)
    for number in "12345":
        world.set("a", number)
    world.end_turn()
    assert world.log.batches == [[b"a=1", b"a=2"], [b"a=3", b"a=4"], [b"a=5"]]
    world.set("a", "6", records=4)
    world.end_turn()
    assert world.log.batches[-1] == [b"a=6"] * 4


def test_what_stands_around_many_short_records_counts(world: World) -> None:
    for number in "12":
        world.set("a", number, records=400_000)
    world.end_turn()
    assert [len(batch) for batch in world.log.batches] == [400_000] * 2
    assert 2 * len(encode_batch(10, 1, 0, world.log.batches[0])) > 8 * 1024 * 1024


def test_leadership_lost_while_the_log_refuses_a_batch_undoes_newest_first(world: World) -> None:
    """A full disk makes the leader resign from inside the append."""
    world.image.set_config(RESOURCE, "a", "before", [])
    world.set("a", "1")
    world.end_turn()
    world.set("a", "2")

    def refuse(values: Sequence[bytes]) -> None:
        world.proposals.lost()

    world.proposals._append = refuse
    world.end_turn()
    assert world.image.config(RESOURCE) == {"a": "before"}
    assert world.outcomes == [("1", False), ("2", False)]


def test_who_follows_does_not_hurry_what_waits(world: World) -> None:
    world.is_flushing = True
    world.set("a", "1", records=3)
    world.proposals.on_commit_deferred(lambda ok: world.outcomes.append(("follower", ok)))
    world.end_turn()
    assert (world.log.batches, world.proposals.pending_records) == ([], 3)
    world.proposals.on_flush_completed()
    assert (len(world.log.batches), len(world.log.batches[0])) == (1, 3)
    assert (world.outcomes, world.proposals.pending_records) == ([], 0)
    world.proposals.committed(world.log.end_offset)
    assert world.outcomes == [("1", True), ("follower", True)]


def test_who_follows_what_is_in_the_log_waits_for_that(world: World) -> None:
    world.set("a", "1")
    world.end_turn()
    world.proposals.on_commit_deferred(lambda ok: world.outcomes.append(("follower", ok)))
    assert world.outcomes == []
    world.proposals.lost()
    assert world.outcomes == [("1", False), ("follower", False)]


def test_who_follows_nothing_waits_for_nothing(world: World) -> None:
    world.proposals.on_commit_deferred(lambda ok: world.outcomes.append(("follower", ok)))
    assert world.outcomes == [("follower", True)]
    assert world.proposals.is_empty


def test_what_a_leader_inherits_is_told_of_when_it_is_committed(world: World) -> None:
    world.proposals.await_inherited(7)
    world.proposals.on_commit_deferred(lambda ok: world.outcomes.append(("follower", ok)))
    world.proposals.committed(6)
    assert world.outcomes == []
    world.proposals.committed(7)
    assert world.outcomes == [("follower", True)]
    assert (world.latencies, world.proposals.is_empty) == ([], True)
