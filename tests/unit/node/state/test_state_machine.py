from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from quorumd.controller.cluster_image import ResourceType
from quorumd.errors import CorruptLog
from quorumd.ids import OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.state.state_machine import StateMachine
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.end_transaction_record import EndTransactionRecord
from quorumd.protocol.messages.fence_broker_record import FenceBrokerRecord
from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from quorumd.protocol.wire import Message
from quorumd.simulator.environment.clock import SimulatedClock
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process
from tests.support.log.snapshots import write_snapshot

GROUP = (int(ResourceType.GROUP), "g")


class World:
    def __init__(self) -> None:
        self.disk = disk = SimulatedDisk(EventHeap(), Random(1))
        disk.make_directory("/log")
        self.log, _ = SegmentedLog.open(disk, "/log", LogSettings(allocate_bytes=0))
        self.turns: list[Callable[[], None]] = []
        self.machine = self.make_machine()
        self.ready = 0
        """How often a new leader was ready."""

    def make_machine(self, record_ms: float = 0.0) -> StateMachine:
        """One that needs so long for every record; a slice takes 5 ms."""
        clock = SimulatedClock(EventHeap(), Process("node"), record_ms=record_ms)
        self.wall_ms = clock.wall_ms
        return StateMachine(self.log, clock, self.turns.append, self.turns.append)

    def start(self, committed: int, snapshot: OffsetAndEpoch | None = None) -> bool:
        return self.machine.start(snapshot, committed, self.disk, self.is_ready)

    def lead(self) -> None:
        self.machine.lead(self.is_ready)

    def is_ready(self) -> None:
        self.ready += 1

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


def test_a_follower_applies_a_slice_a_turn(world: World) -> None:
    world.machine = world.make_machine(record_ms=5.0)
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


def test_a_new_leader_applies_its_log_in_slices_and_then_is_ready(world: World) -> None:
    world.machine = world.make_machine(record_ms=2.5)
    world.machine.committed(world.append(("a", "1")))
    for number in range(10):
        world.append((f"k{number}", "v"))
    world.lead()
    assert (world.ready, world.machine.applied_offset) == (0, 2)
    world.run_turns()
    assert (world.ready, world.machine.applied_offset) == (1, 11)


def test_a_large_batch_is_applied_in_slices_and_readers_see_it_whole(world: World) -> None:
    world.machine = world.make_machine(record_ms=1.0)
    world.machine.committed(world.append(*((f"k{number}", "v") for number in range(25))))
    world.machine.committed(world.append(*((f"s{number}", "v") for number in range(10))))
    seen = []
    while world.turns:
        world.turns.pop(0)()
        seen.append((len(world.configs()), world.machine.applied_offset, world.machine.is_readable))
    assert seen == [(10, 10, False), (20, 20, False), (25, 25, True), (35, 35, True)]


def test_a_leader_that_is_deposed_while_it_applies_takes_a_part_of_a_batch_back(world: World) -> None:
    world.machine = world.make_machine(record_ms=1.0)
    world.machine.committed(world.append(("k0", "before")))
    world.run_turns()
    world.append(*((f"k{number}", "v") for number in range(250)))
    world.lead()
    assert world.machine.applied_offset == 11
    world.machine.on_leadership_lost()
    assert world.machine.needed_offset == 1
    world.run_turns()
    assert (world.configs(), world.machine.applied_offset, world.ready) == ({"k0": "before"}, 1, 0)
    world.log.truncate(1)
    world.machine.committed(world.append(("k1", "after"), epoch=2))
    world.run_turns()
    assert world.configs() == {"k0": "before", "k1": "after"}


def test_what_was_read_ahead_and_cut_meanwhile_is_not_applied(world: World) -> None:
    world.machine = world.make_machine(record_ms=1.0)
    committed = world.append(*((f"k{number}", "v") for number in range(250)))
    world.append(("k0", "cut"))
    world.lead()
    world.machine.committed(committed)
    world.machine.on_leadership_lost()
    world.log.truncate(committed)
    world.machine.committed(world.append(("k0", "kept"), epoch=2))
    world.run_turns()
    assert world.configs()["k0"] == "kept"
    assert world.machine.applied_offset == committed + 1


def test_undoing_takes_slices_too_and_the_log_is_needed_from_where_it_ends(world: World) -> None:
    world.machine = world.make_machine(record_ms=2.5)
    world.machine.committed(world.append(("a", "1")))
    for number in range(10):
        world.append((f"k{number}", "v"))
    world.lead()
    world.run_turns()
    world.machine.on_leadership_lost()
    assert world.machine.applied_offset > world.machine.needed_offset == 1
    assert world.run_turns() > 3
    assert world.configs() == {"a": "1"}


def test_a_start_applies_what_is_known_to_be_committed(world: World) -> None:
    world.machine = world.make_machine(record_ms=2.5)
    for number in range(10):
        world.append((f"k{number}", "v"))
    assert world.start(committed=8)
    assert not world.machine.is_readable
    world.run_turns()
    assert (world.ready, world.machine.applied_offset) == (1, 8)
    assert world.machine.is_readable


def test_a_start_that_has_next_to_nothing_to_apply_is_over_at_once(world: World) -> None:
    assert not world.start(committed=world.append(("a", "1")))
    assert world.configs() == {"a": "1"}
    assert world.machine.is_readable


def test_a_start_is_over_when_that_is_applied_whatever_is_committed_meanwhile(world: World) -> None:
    world.machine = world.make_machine(record_ms=2.5)
    for number in range(10):
        world.append((f"k{number}", "v"))
    world.start(committed=5)
    world.machine.committed(10)
    while not world.ready:
        world.turns.pop(0)()
    assert world.machine.applied_offset < 10


def test_readers_wait_until_all_of_a_large_batch_is_applied(world: World) -> None:
    world.machine = world.make_machine(record_ms=1.0)
    world.machine.committed(world.append(*((f"k{number}", "v") for number in range(250))))
    seen: list[int] = []
    world.turns.pop(0)()
    assert len(world.configs()) == 10
    for _ in range(2):
        world.machine.when_readable(lambda: seen.append(len(world.configs())))
    world.run_turns()
    assert seen == [250, 250]


def test_a_new_leader_of_a_small_log_is_ready_at_once(world: World) -> None:
    world.machine.committed(world.append(("a", "1")))
    world.append(("a", "2"))
    world.append(("b", "3"))
    world.lead()
    assert world.configs() == {"a": "2", "b": "3"}
    assert (world.machine.applied_offset, world.ready) == (3, 1)


def test_losing_leadership_takes_back_what_is_not_committed(world: World) -> None:
    world.append(("a", "1"))
    world.append(("a", "2"), ("c", "4"))
    world.append(("a", None), ("b", "3"))
    world.lead()
    world.machine.committed(1)
    world.machine.on_leadership_lost()
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
    world.lead()
    world.machine.committed(2)
    world.machine.on_leadership_lost()
    assert world.configs() == {"a": "2"}


def test_the_own_records_of_a_leader_are_not_applied_a_second_time(world: World) -> None:
    world.lead()
    world.machine.image.set_config(GROUP, "a", "1", [])
    world.machine.appended(world.append(("a", "1")))
    world.machine.image.set_config(GROUP, "a", "2", [])
    world.machine.committed(1)
    world.run_turns()
    assert world.configs() == {"a": "2"}


def test_a_slice_that_comes_after_the_node_became_leader_applies_nothing_twice(world: World) -> None:
    world.machine.committed(world.append(("a", "1")))
    world.append(("a", "2"))
    world.lead()
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
        world.lead()


def test_every_way_of_applying_leads_to_the_same_image(world: World) -> None:
    world.machine = world.make_machine(record_ms=5.0)
    for number in range(30):
        world.append((f"k{number % 7}", None if number % 5 == 0 else str(number)))
    leader = world.make_machine()
    leader.lead(world.is_ready)
    leader.committed(11)
    leader.on_leadership_lost()
    leader.committed(30)
    world.machine.committed(30)
    world.run_turns()
    assert leader.image.fingerprint() == world.machine.image.fingerprint()


class TestSnapshots:
    def write(self, world: World, offset: int, values: dict[str, str]) -> OffsetAndEpoch:
        snapshot = OffsetAndEpoch(offset, 1)
        write_snapshot(
            world.disk,
            "/log",
            snapshot,
            [encode_record(ConfigRecord(*GROUP, key, value), 0) for key, value in values.items()],
        )
        world.log.snapshots.rescan()
        return snapshot

    def install(self, world: World, offset: int, values: dict[str, str]) -> None:
        """What is left to load after a snapshot has taken the place of the log."""
        snapshot = self.write(world, offset, values)
        world.log.reset_to_snapshot(snapshot)
        world.machine.load(snapshot, world.disk)

    def test_a_start_loads_one_in_slices_and_applies_what_is_committed_behind_it(self, world: World) -> None:
        world.machine = world.make_machine(record_ms=1.0)
        snapshot = self.write(world, 250, {f"k{n}": "v" for n in range(35)})
        world.log.reset_to_snapshot(snapshot)
        committed = world.append(("after", "1"))
        assert world.start(committed, snapshot)
        assert world.machine.needed_offset == 0
        seen: list[int] = []
        while not world.ready:
            assert not world.machine.is_readable
            assert world.configs() == {}
            loading = world.machine.loading
            seen.append(loading.records if loading is not None else -1)
            world.turns.pop(0)()
        assert seen == [10, 20, 30, 35]
        assert world.machine.applied_offset == world.machine.committed_offset == committed
        assert (len(world.configs()), world.machine.is_readable) == (36, True)

    def test_one_that_comes_amid_a_large_batch_is_what_readers_see_next(self, world: World) -> None:
        world.machine = world.make_machine(record_ms=1.0)
        world.machine.committed(world.append(*((f"k{number}", "v") for number in range(250))))
        world.turns.pop(0)()
        self.install(world, 500, {"a": "1"})
        seen: list[dict[str, str]] = []
        world.machine.when_readable(lambda: seen.append(world.configs()))
        world.run_turns()
        assert seen == [{"a": "1"}]

    def test_one_takes_the_place_of_the_image_when_it_is_loaded_whole(self, world: World) -> None:
        world.machine = world.make_machine(record_ms=1.0)
        world.machine.committed(world.append(("old", "1")))
        world.run_turns()
        self.install(world, 500, {f"k{n}": "v" for n in range(350)})
        assert world.machine.committed_offset == 500
        committed = world.append(("after", "1"), ("k0", "2"))
        world.machine.committed(committed)
        while world.machine.applied_offset < 500:
            assert world.configs() == {"old": "1"}
            assert world.machine.applied_offset == 1
            world.turns.pop(0)()
        world.run_turns()
        assert world.machine.applied_offset == world.machine.committed_offset == committed
        assert world.configs() == {f"k{n}": "v" for n in range(1, 350)} | {"k0": "2", "after": "1"}

    def test_it_takes_many_turns(self, world: World) -> None:
        world.machine = world.make_machine(record_ms=1.0)
        self.install(world, 500, {f"k{n}": "v" for n in range(350)})
        assert world.run_turns() > 3

    def test_a_leader_loads_the_rest_before_it_is_ready(self, world: World) -> None:
        world.machine = world.make_machine(record_ms=1.0)
        self.install(world, 500, {f"k{n}": "v" for n in range(350)})
        world.turns.pop(0)()
        end = world.append(("after", "not committed"))
        world.lead()
        assert world.ready == 0
        world.run_turns()
        assert len(world.configs()) == 351
        assert world.machine.applied_offset == end
        assert world.ready == 1
        world.machine.on_leadership_lost()
        assert len(world.configs()) == 350

    def test_a_newer_one_replaces_one_that_is_being_loaded(self, world: World) -> None:
        world.machine = world.make_machine(record_ms=1.0)
        self.install(world, 500, {f"k{n}": "v" for n in range(350)})
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
    world.lead()
    assert world.configs() == {"a": "within", "b": "after"}
    world.machine.on_leadership_lost()
    assert world.configs() == {"a": "before"}
    world.log.truncate(world.machine.committed_offset)
    world.machine.committed(world.write(AbortTransactionRecord(), epoch=2))
    world.run_turns()
    assert world.configs() == {"a": "before"}
    assert not world.machine.image.in_transaction


def test_time_of_the_last_record_is_that_of_what_was_applied_last(world: World) -> None:
    assert world.machine.applied_timestamp_ms == 0
    end = world.append(("a", "1"))
    world.start(end)
    assert world.machine.applied_timestamp_ms == 1000
    base_offset = world.log.end_offset
    control = encode_control_batch(base_offset, 1, 2000, [(b"\0\0\0\2", b"\0\0")])
    world.log.append(control, base_offset + 1)
    world.machine.committed(base_offset + 1)
    world.run_turns()
    assert world.machine.applied_timestamp_ms == 2000
    world.lead()
    world.run_turns()
    world.machine.appended(base_offset + 2)
    assert world.machine.applied_timestamp_ms == world.wall_ms() > 2000


def test_time_of_the_last_record_is_that_of_the_snapshot_that_was_loaded(world: World) -> None:
    end = world.append(("a", "1"))
    snapshot = OffsetAndEpoch(end, 1)
    write_snapshot(world.disk, "/log", snapshot, [encode_record(ConfigRecord(*GROUP, "a", "1"), 0)])
    world.log.snapshots.rescan()
    world.start(end, snapshot)
    world.run_turns()
    assert world.machine.applied_timestamp_ms == world.log.snapshots.timestamp_ms(snapshot) > 0
