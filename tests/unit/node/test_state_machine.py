from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from quorumd.controller.cluster_image import ResourceType
from quorumd.errors import CorruptLog
from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node import state_machine as module
from quorumd.node.state_machine import StateMachine
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.end_transaction_record import EndTransactionRecord
from quorumd.protocol.messages.fence_broker_record import FenceBrokerRecord
from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from quorumd.protocol.wire import Message
from quorumd.simulator.disk import SimulatedDisk
from quorumd.simulator.event_heap import EventHeap
from tests.support.snapshots import write_snapshot

GROUP = (int(ResourceType.GROUP), "g")


class World:
    def __init__(self) -> None:
        self.disk = disk = SimulatedDisk(EventHeap(), Random(1))
        disk.make_directory("/log")
        self.log, _ = SegmentedLog.open(disk, "/log", LogSettings(allocate_bytes=0))
        self.turns: list[Callable[[], None]] = []
        self.machine = StateMachine(self.log, self.turns.append, self.turns.append)

    def append(self, *pairs: tuple[str, str | None], epoch: int = 1) -> int:
        """One batch of config records; the log's new end."""
        return self.write(*(ConfigRecord(*GROUP, key, value) for key, value in pairs), epoch=epoch)

    def write(self, *records: Message, epoch: int = 1) -> int:
        """One batch of records; the log's new end."""
        values = [encode_record(record, 0) for record in records]
        base_offset = self.log.end_offset
        self.log.append(encode_batch(base_offset, epoch, 1000, values), base_offset + len(values))
        return self.log.end_offset

    def run_turns(self) -> int:
        """Everything that was scheduled, until nothing is left; how many turns that took."""
        count = 0
        while self.turns:
            self.turns.pop(0)()
            count += 1
        return count

    def configs(self) -> dict[str, str]:
        return self.machine.image.config(GROUP)


@pytest.fixture
def world() -> World:
    return World()


def test_a_follower_applies_what_is_committed_in_a_later_turn_and_no_more(world: World) -> None:
    committed = world.append(("a", "1"), ("b", "2"))
    world.append(("a", "not committed"))
    world.machine.committed(committed)
    assert world.configs() == {}
    world.run_turns()
    assert world.configs() == {"a": "1", "b": "2"}
    assert world.machine.applied_offset == world.machine.committed_offset == committed


def test_a_follower_applies_a_slice_a_turn(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE_BYTES", 1)
    for number in range(5):
        world.append((f"k{number}", "v"))
    world.machine.committed(world.log.end_offset)
    assert world.run_turns() == 5
    assert len(world.configs()) == 5


def test_commits_that_come_while_slices_wait_are_applied_with_them(world: World) -> None:
    world.machine.committed(world.append(("a", "1")))
    world.machine.committed(world.append(("a", "2")))
    assert len(world.turns) == 1
    world.run_turns()
    assert world.configs() == {"a": "2"}


def test_a_lower_high_watermark_changes_nothing(world: World) -> None:
    world.machine.committed(world.append(("a", "1")))
    world.machine.committed(0)
    assert world.machine.committed_offset == 1


def test_control_records_and_records_that_the_image_does_not_hold_are_passed_over(world: World) -> None:
    world.log.append(encode_control_batch(0, 1, 1000, [(b"\x00\x00\x00\x02", b"not looked into")]), 1)
    world.log.append(encode_batch(1, 1, 1000, [encode_record(NoOpRecord(), 0)]), 2)
    world.machine.committed(world.append(("a", "1")))
    world.run_turns()
    assert world.machine.applied_offset == 3
    assert world.configs() == {"a": "1"}


def test_a_new_leader_applies_its_whole_log_at_once(world: World) -> None:
    world.machine.committed(world.append(("a", "1")))
    world.append(("a", "2"))
    world.append(("b", "3"))
    world.machine.lead()
    assert world.configs() == {"a": "2", "b": "3"}
    assert world.machine.applied_offset == 3


def test_losing_leadership_takes_back_what_is_not_committed(world: World) -> None:
    world.append(("a", "1"))
    world.append(("a", "2"), ("c", "4"))
    world.append(("a", None), ("b", "3"))
    world.machine.lead()
    world.machine.committed(1)
    world.machine.lost_leadership()
    assert world.configs() == {"a": "1"}
    assert world.machine.applied_offset == 1
    # The log is cut by the next leader, and what it has instead is applied when it is committed.
    world.log.truncate(1)
    world.machine.committed(world.append(("a", "5"), epoch=2))
    world.run_turns()
    assert world.configs() == {"a": "5"}


def test_what_was_committed_while_leading_is_not_taken_back(world: World) -> None:
    world.append(("a", "1"))
    world.append(("a", "2"))
    world.machine.lead()
    world.machine.committed(2)
    world.machine.lost_leadership()
    assert world.configs() == {"a": "2"}


def test_the_own_records_of_a_leader_are_not_applied_a_second_time(world: World) -> None:
    world.machine.lead()
    world.machine.image.set_config(GROUP, "a", "1", [])
    world.machine.appended(world.append(("a", "1")))
    world.machine.image.set_config(GROUP, "a", "2", [])
    world.machine.committed(1)
    world.run_turns()
    assert world.configs() == {"a": "2"}


def test_a_slice_that_comes_after_the_node_became_leader_applies_nothing_twice(world: World) -> None:
    world.machine.committed(world.append(("a", "1")))
    world.append(("a", "2"))
    world.machine.lead()
    world.run_turns()
    assert world.configs() == {"a": "2"}


@pytest.mark.parametrize(
    "value", [b"", b"\x02\x04\x00", b"\x01\xff\x7f\x00", b"\x01\x04\x63", b"\x01\x04\x00\x20"]
)
def test_a_record_that_is_not_understood_is_an_error_with_its_place(world: World, value: bytes) -> None:
    """Passing it over would give this node another image than the others have."""
    world.append(("a", "1"))
    world.log.append(encode_batch(1, 1, 1000, [value]), 2)
    world.machine.committed(2)
    with pytest.raises(CorruptLog, match="at offset 1"):
        world.run_turns()
    assert world.machine.applied_offset == 1
    with pytest.raises(CorruptLog, match="at offset 1"):
        world.machine.lead()


def test_every_way_of_applying_leads_to_the_same_image(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE_BYTES", 1)
    for number in range(30):
        world.append((f"k{number % 7}", None if number % 5 == 0 else str(number)))
    leader = StateMachine(world.log, world.turns.append, world.turns.append)
    leader.lead()
    leader.committed(11)
    leader.lost_leadership()
    leader.committed(30)
    world.machine.committed(30)
    world.run_turns()
    assert leader.image.fingerprint() == world.machine.image.fingerprint()


class TestSnapshots:
    def install(self, world: World, offset: int, values: dict[str, str]) -> OffsetAndEpoch:
        """What is left to load after a snapshot has taken the place of the log."""
        snapshot = OffsetAndEpoch(offset, 1)
        write_snapshot(
            world.disk,
            "/log",
            snapshot,
            [encode_record(ConfigRecord(*GROUP, key, value), 0) for key, value in values.items()],
        )
        world.log.snapshots.rescan()
        world.log.restart_at(snapshot)
        world.machine.load(snapshot, world.disk)
        return snapshot

    def test_one_takes_the_place_of_the_image_when_it_is_loaded_whole(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "LOAD_RECORDS", 10)
        world.machine.committed(world.append(("old", "1")))
        world.run_turns()
        self.install(world, 500, {f"k{n}": "v" for n in range(35)})
        assert world.machine.committed_offset == 500
        committed = world.append(("after", "1"), ("k0", "2"))
        world.machine.committed(committed)
        while world.machine.applied_offset < 500:
            assert world.configs() == {"old": "1"}
            assert world.machine.applied_offset == 1
            world.turns.pop(0)()
        assert len(world.configs()) == 35
        world.run_turns()
        assert world.machine.applied_offset == world.machine.committed_offset == committed
        assert world.configs() == {f"k{n}": "v" for n in range(1, 35)} | {"k0": "2", "after": "1"}

    def test_it_takes_many_turns(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "LOAD_RECORDS", 10)
        self.install(world, 500, {f"k{n}": "v" for n in range(35)})
        assert world.run_turns() == 4

    def test_a_leader_loads_the_rest_at_once(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "LOAD_RECORDS", 10)
        self.install(world, 500, {f"k{n}": "v" for n in range(35)})
        world.turns.pop(0)()
        end = world.append(("after", "not committed"))
        world.machine.lead()
        assert len(world.configs()) == 36
        assert world.machine.applied_offset == end
        world.run_turns()
        assert len(world.configs()) == 36
        world.machine.lost_leadership()
        assert len(world.configs()) == 35

    def test_a_newer_one_replaces_one_that_is_being_loaded(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "LOAD_RECORDS", 10)
        self.install(world, 500, {f"k{n}": "v" for n in range(35)})
        world.turns.pop(0)()
        self.install(world, 600, {"a": "1"})
        world.run_turns()
        assert world.configs() == {"a": "1"}
        assert world.machine.applied_offset == 600


def test_a_log_that_contradicts_itself_stops_the_node(world: World) -> None:
    world.write(FenceBrokerRecord(1, 1))
    world.machine.committed(world.log.end_offset)
    with pytest.raises(CorruptLog, match=r"cannot be applied at offset 0: .* broker 1 .* not registered"):
        world.run_turns()


def test_a_transaction_is_applied_at_its_end(world: World) -> None:
    world.append(("a", "before"))
    world.write(BeginTransactionRecord(), ConfigRecord(*GROUP, "a", "within"))
    world.machine.committed(world.write(ConfigRecord(*GROUP, "b", "within")))
    world.run_turns()
    assert world.configs() == {"a": "before"}
    world.machine.committed(world.write(EndTransactionRecord()))
    world.run_turns()
    assert world.configs() == {"a": "within", "b": "within"}


def test_an_end_of_a_transaction_that_was_never_committed_is_taken_back(world: World) -> None:
    world.append(("a", "before"))
    world.machine.committed(world.write(BeginTransactionRecord(), ConfigRecord(*GROUP, "a", "within")))
    world.run_turns()
    world.write(EndTransactionRecord(), ConfigRecord(*GROUP, "b", "after"))
    world.machine.lead()
    assert world.configs() == {"a": "within", "b": "after"}
    world.machine.lost_leadership()
    assert world.configs() == {"a": "before"}
    world.log.truncate(world.machine.committed_offset)
    world.machine.committed(world.write(AbortTransactionRecord(), epoch=2))
    world.run_turns()
    assert world.configs() == {"a": "before"}
    assert not world.machine.image.in_transaction
