from __future__ import annotations

import pytest

from quorumd.controller.undo_log import undo
from quorumd.errors import CorruptLog
from quorumd.ids import OffsetAndEpoch
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.end_transaction_record import EndTransactionRecord
from quorumd.protocol.messages.fence_broker_record import FenceBrokerRecord
from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from tests.support.log.snapshots import write_snapshot
from tests.support.node.parts import GROUP, NodeParts


class StateHarness(NodeParts):
    """The state machine of a node with a log of config records."""

    def start(self, committed: int, snapshot: OffsetAndEpoch | None = None) -> bool:
        return self.machine.start(snapshot, committed, self.disk, self.activate)


@pytest.fixture
def harness() -> StateHarness:
    return StateHarness()


def test_follower_applies_only_committed_records_in_a_later_turn(harness: StateHarness) -> None:
    committed = harness.append(("a", "1"), ("b", "2"))
    harness.append(("a", "not committed"))
    harness.machine.committed(committed)
    assert harness.config() == {}
    harness.run_turns()
    assert harness.config() == {"a": "1", "b": "2"}
    assert harness.machine.applied_offset == harness.machine.committed_offset == committed


def test_follower_applies_one_slice_per_turn(harness: StateHarness) -> None:
    harness.machine = harness.make_machine(record_ms=5.0)
    for number in range(5):
        harness.append((f"k{number}", "v"))
    harness.machine.committed(harness.log.end_offset)
    assert harness.run_turns() == 5
    assert len(harness.config()) == 5


def test_commits_between_slices_are_applied_with_them(harness: StateHarness) -> None:
    harness.machine.committed(harness.append(("a", "1")))
    harness.machine.committed(harness.append(("a", "2")))
    assert len(harness.turns) == 1
    harness.run_turns()
    assert harness.config() == {"a": "2"}


def test_lower_high_watermark_has_no_effect(harness: StateHarness) -> None:
    harness.machine.committed(harness.append(("a", "1")))
    harness.machine.committed(0)
    assert harness.machine.committed_offset == 1


def test_control_records_and_records_without_state_are_skipped(
    harness: StateHarness,
) -> None:
    harness.log.append(encode_control_batch(0, 1, 1000, [(b"\x00\x00\x00\x02", b"not looked into")]), 1)
    harness.log.append(encode_batch(1, 1, 1000, [encode_record(NoOpRecord(), 0)]), 2)
    harness.machine.committed(harness.append(("a", "1")))
    harness.run_turns()
    assert harness.machine.applied_offset == 3
    assert harness.config() == {"a": "1"}


def test_new_leader_applies_its_log_in_slices_before_it_is_ready(harness: StateHarness) -> None:
    harness.machine = harness.make_machine(record_ms=2.5)
    harness.machine.committed(harness.append(("a", "1")))
    for number in range(10):
        harness.append((f"k{number}", "v"))
    harness.lead()
    assert (harness.activations, harness.machine.applied_offset) == (0, 2)
    harness.run_turns()
    assert (harness.activations, harness.machine.applied_offset) == (1, 11)


def test_new_leader_is_ready_once_it_has_applied_what_it_appends_meanwhile(harness: StateHarness) -> None:
    harness.machine = harness.make_machine(record_ms=5.0)
    for number in range(3):
        harness.append((f"k{number}", "v"))
    harness.lead()
    harness.machine.appended(harness.append(("meanwhile", "v")))
    harness.run_turns()
    assert (harness.activations, harness.machine.applied_offset) == (1, 4)


def test_large_batch_is_applied_in_slices_and_read_as_a_whole(harness: StateHarness) -> None:
    harness.machine = harness.make_machine(record_ms=1.0)
    harness.machine.committed(harness.append(*((f"k{number}", "v") for number in range(25))))
    harness.machine.committed(harness.append(*((f"s{number}", "v") for number in range(10))))
    seen = []
    while harness.turns:
        harness.turns.pop(0)()
        seen.append((len(harness.config()), harness.machine.applied_offset, harness.machine.is_readable))
    assert seen == [(10, 10, False), (20, 20, False), (25, 25, True), (35, 35, True)]


@pytest.mark.parametrize(("committed", "is_listed"), [(24, True), (25, False)])
def test_changes_of_a_partly_applied_batch_are_listed_unless_it_is_committed(
    harness: StateHarness, committed: int, is_listed: bool
) -> None:
    harness.machine = harness.make_machine(record_ms=1.0)
    harness.append(*((f"k{number}", "v") for number in range(25)))
    harness.lead()
    assert 0 < len(harness.config()) < 25
    harness.machine.committed(committed)
    assert bool(harness.machine.uncommitted_changes()) is is_listed


def test_leader_that_resigns_while_applying_rolls_back_a_partial_batch(
    harness: StateHarness,
) -> None:
    harness.machine = harness.make_machine(record_ms=1.0)
    harness.machine.committed(harness.append(("k0", "before")))
    harness.run_turns()
    harness.append(*((f"k{number}", "v") for number in range(250)))
    harness.lead()
    assert harness.machine.applied_offset == 11
    harness.machine.on_leadership_lost()
    assert harness.machine.needed_offset == 1
    harness.run_turns()
    assert (harness.config(), harness.machine.applied_offset, harness.activations) == ({"k0": "before"}, 1, 0)
    harness.log.truncate(1)
    harness.machine.committed(harness.append(("k1", "after"), epoch=2))
    harness.run_turns()
    assert harness.config() == {"k0": "before", "k1": "after"}


def test_records_read_ahead_and_truncated_are_not_applied(harness: StateHarness) -> None:
    harness.machine = harness.make_machine(record_ms=1.0)
    committed = harness.append(*((f"k{number}", "v") for number in range(250)))
    harness.append(("k0", "cut"))
    harness.lead()
    harness.machine.committed(committed)
    harness.machine.on_leadership_lost()
    harness.log.truncate(committed)
    harness.machine.committed(harness.append(("k0", "kept"), epoch=2))
    harness.run_turns()
    assert harness.config()["k0"] == "kept"
    assert harness.machine.applied_offset == committed + 1


def test_rollback_runs_in_slices_and_needs_the_log_from_its_end(harness: StateHarness) -> None:
    harness.machine = harness.make_machine(record_ms=2.5)
    harness.machine.committed(harness.append(("a", "1")))
    for number in range(10):
        harness.append((f"k{number}", "v"))
    harness.lead()
    harness.run_turns()
    harness.machine.on_leadership_lost()
    assert harness.machine.applied_offset > harness.machine.needed_offset == 1
    assert harness.run_turns() > 3
    assert harness.config() == {"a": "1"}


def test_start_applies_records_known_to_be_committed(harness: StateHarness) -> None:
    harness.machine = harness.make_machine(record_ms=2.5)
    for number in range(10):
        harness.append((f"k{number}", "v"))
    assert harness.start(committed=8)
    assert not harness.machine.is_readable
    harness.run_turns()
    assert (harness.activations, harness.machine.applied_offset) == (1, 8)
    assert harness.machine.is_readable


def test_start_with_little_to_apply_completes_at_once(harness: StateHarness) -> None:
    assert not harness.start(committed=harness.append(("a", "1")))
    assert harness.config() == {"a": "1"}
    assert harness.machine.is_readable


def test_start_completes_regardless_of_later_commits(harness: StateHarness) -> None:
    harness.machine = harness.make_machine(record_ms=2.5)
    for number in range(10):
        harness.append((f"k{number}", "v"))
    harness.start(committed=5)
    harness.machine.committed(10)
    while not harness.activations:
        harness.turns.pop(0)()
    assert harness.machine.applied_offset < 10


def test_readers_wait_for_the_end_of_a_large_batch(harness: StateHarness) -> None:
    harness.machine = harness.make_machine(record_ms=1.0)
    harness.machine.committed(harness.append(*((f"k{number}", "v") for number in range(250))))
    seen: list[int] = []
    harness.turns.pop(0)()
    assert len(harness.config()) == 10
    for _ in range(2):
        harness.machine.when_readable(lambda: seen.append(len(harness.config())))
    harness.run_turns()
    assert seen == [250, 250]


def test_new_leader_with_a_small_log_is_ready_at_once(harness: StateHarness) -> None:
    harness.machine.committed(harness.append(("a", "1")))
    harness.append(("a", "2"))
    harness.append(("b", "3"))
    harness.lead()
    assert harness.config() == {"a": "2", "b": "3"}
    assert (harness.machine.applied_offset, harness.activations) == (3, 1)


def test_lost_leadership_rolls_back_uncommitted_records(harness: StateHarness) -> None:
    harness.append(("a", "1"))
    harness.append(("a", "2"), ("c", "4"))
    harness.append(("a", None), ("b", "3"))
    harness.lead()
    harness.machine.committed(1)
    harness.machine.on_leadership_lost()
    assert harness.config() == {"a": "1"}
    assert harness.machine.applied_offset == 1
    # The next leader truncates the log; its records are applied when they are committed.
    harness.log.truncate(1)
    harness.machine.committed(harness.append(("a", "5"), epoch=2))
    harness.run_turns()
    assert harness.config() == {"a": "5"}
    # What was rolled back once is not rolled back again.
    harness.lead()
    harness.machine.on_leadership_lost()
    assert harness.config() == {"a": "5"}


def test_records_committed_while_leading_are_not_rolled_back(harness: StateHarness) -> None:
    harness.append(("a", "1"))
    harness.append(("a", "2"))
    harness.lead()
    harness.machine.committed(2)
    harness.machine.on_leadership_lost()
    assert harness.config() == {"a": "2"}


def test_proposed_records_are_not_applied_a_second_time(harness: StateHarness) -> None:
    harness.lead()
    harness.machine.image.set_config(GROUP, "a", "1", [])
    harness.machine.appended(harness.append(("a", "1")))
    harness.machine.image.set_config(GROUP, "a", "2", [])
    harness.machine.committed(1)
    harness.run_turns()
    assert harness.config() == {"a": "2"}


def test_slice_scheduled_before_the_leadership_applies_nothing_twice(harness: StateHarness) -> None:
    harness.machine.committed(harness.append(("a", "1")))
    harness.append(("a", "2"))
    harness.lead()
    harness.run_turns()
    assert harness.config() == {"a": "2"}


@pytest.mark.parametrize(
    "value", [b"", b"\x02\x04\x00", b"\x01\xff\x7f\x00", b"\x01\x04\x63", b"\x01\x04\x00\x20"]
)
def test_undecodable_record_is_an_error_with_its_offset(harness: StateHarness, value: bytes) -> None:
    """Skipping it would make the image differ from those of other nodes."""
    harness.append(("a", "1"))
    harness.log.append(encode_batch(1, 1, 1000, [value]), 2)
    harness.machine.committed(2)
    with pytest.raises(CorruptLog, match="at offset 1"):
        harness.run_turns()
    assert harness.machine.applied_offset == 1
    with pytest.raises(CorruptLog, match="at offset 1"):
        harness.lead()


def test_all_apply_paths_give_the_same_image(harness: StateHarness) -> None:
    harness.machine = harness.make_machine(record_ms=5.0)
    for number in range(30):
        harness.append((f"k{number % 7}", None if number % 5 == 0 else str(number)))
    leader = harness.make_machine()
    leader.lead(harness.activate)
    leader.committed(11)
    leader.on_leadership_lost()
    leader.committed(30)
    harness.machine.committed(30)
    harness.run_turns()
    assert leader.image.fingerprint() == harness.machine.image.fingerprint()


class TestSnapshots:
    def write(self, harness: StateHarness, offset: int, values: dict[str, str]) -> OffsetAndEpoch:
        snapshot = OffsetAndEpoch(offset, 1)
        write_snapshot(
            harness.disk,
            "/log",
            snapshot,
            [encode_record(ConfigRecord(*GROUP, key, value), 0) for key, value in values.items()],
        )
        harness.log.snapshots.rescan()
        return snapshot

    def install(self, harness: StateHarness, offset: int, values: dict[str, str]) -> None:
        """Replace the log with a snapshot and begin to load it."""
        snapshot = self.write(harness, offset, values)
        harness.log.reset_to_snapshot(snapshot)
        harness.machine.load(snapshot, harness.disk)

    def test_start_loads_a_snapshot_in_slices_and_applies_the_log_after_it(
        self, harness: StateHarness
    ) -> None:
        harness.machine = harness.make_machine(record_ms=1.0)
        snapshot = self.write(harness, 250, {f"k{n}": "v" for n in range(35)})
        harness.log.reset_to_snapshot(snapshot)
        committed = harness.append(("after", "1"))
        assert harness.start(committed, snapshot)
        assert harness.machine.needed_offset == 0
        seen: list[int] = []
        while not harness.activations:
            assert not harness.machine.is_readable
            assert harness.config() == {}
            loading = harness.machine.loading
            seen.append(loading.records if loading is not None else -1)
            harness.turns.pop(0)()
        assert seen == [10, 20, 30, 35]
        assert harness.machine.applied_offset == harness.machine.committed_offset == committed
        assert (len(harness.config()), harness.machine.is_readable) == (36, True)

    def test_start_completes_once_a_snapshot_of_all_committed_records_is_loaded(
        self, harness: StateHarness
    ) -> None:
        log = harness.log
        snapshot = self.write(harness, 250, {f"k{n}": "v" for n in range(35)})
        log.reset_to_snapshot(snapshot)
        harness.machine = harness.make_machine(record_ms=1.0)
        assert harness.start(250, snapshot)
        assert not harness.machine.is_readable
        harness.run_turns()
        assert (harness.activations, len(harness.config())) == (1, 35)

    def test_snapshot_fetched_during_a_large_batch_is_the_next_readable_image(
        self, harness: StateHarness
    ) -> None:
        harness.machine = harness.make_machine(record_ms=1.0)
        harness.machine.committed(harness.append(*((f"k{number}", "v") for number in range(250))))
        harness.turns.pop(0)()
        self.install(harness, 500, {"a": "1"})
        seen: list[dict[str, str]] = []
        harness.machine.when_readable(lambda: seen.append(harness.config()))
        harness.run_turns()
        assert seen == [{"a": "1"}]

    def test_snapshot_replaces_the_image_when_loaded_completely(self, harness: StateHarness) -> None:
        harness.machine = harness.make_machine(record_ms=1.0)
        harness.machine.committed(harness.append(("old", "1")))
        harness.run_turns()
        self.install(harness, 500, {f"k{n}": "v" for n in range(350)})
        assert harness.machine.committed_offset == 500
        committed = harness.append(("after", "1"), ("k0", "2"))
        harness.machine.committed(committed)
        while harness.machine.applied_offset < 500:
            assert harness.config() == {"old": "1"}
            assert harness.machine.applied_offset == 1
            harness.turns.pop(0)()
        harness.run_turns()
        assert harness.machine.applied_offset == harness.machine.committed_offset == committed
        assert harness.config() == {f"k{n}": "v" for n in range(1, 350)} | {"k0": "2", "after": "1"}

    def test_loading_takes_many_turns(self, harness: StateHarness) -> None:
        harness.machine = harness.make_machine(record_ms=1.0)
        self.install(harness, 500, {f"k{n}": "v" for n in range(350)})
        assert harness.run_turns() > 3

    def test_leader_completes_loading_before_it_is_ready(self, harness: StateHarness) -> None:
        harness.machine = harness.make_machine(record_ms=1.0)
        self.install(harness, 500, {f"k{n}": "v" for n in range(350)})
        harness.turns.pop(0)()
        end = harness.append(("after", "not committed"))
        harness.lead()
        assert harness.activations == 0
        harness.run_turns()
        assert len(harness.config()) == 351
        assert harness.machine.applied_offset == end
        assert harness.activations == 1
        harness.machine.on_leadership_lost()
        assert len(harness.config()) == 350

    def test_newer_snapshot_replaces_one_being_loaded(self, harness: StateHarness) -> None:
        harness.machine = harness.make_machine(record_ms=1.0)
        self.install(harness, 500, {f"k{n}": "v" for n in range(350)})
        harness.turns.pop(0)()
        self.install(harness, 600, {"a": "1"})
        harness.run_turns()
        assert harness.config() == {"a": "1"}
        assert harness.machine.applied_offset == 600


def test_inconsistent_log_stops_the_node(harness: StateHarness) -> None:
    harness.write(FenceBrokerRecord(1, 1))
    harness.machine.committed(harness.log.end_offset)
    with pytest.raises(CorruptLog, match=r"offset 0\b.* broker 1\b"):
        harness.run_turns()


def test_transaction_is_applied_at_its_end(harness: StateHarness) -> None:
    harness.append(("a", "before"))
    harness.write(BeginTransactionRecord(), ConfigRecord(*GROUP, "a", "within"))
    harness.machine.committed(harness.write(ConfigRecord(*GROUP, "b", "within")))
    harness.run_turns()
    assert harness.config() == {"a": "before"}
    harness.machine.committed(harness.write(EndTransactionRecord()))
    harness.run_turns()
    assert harness.config() == {"a": "within", "b": "within"}


def test_uncommitted_end_of_a_transaction_is_rolled_back(harness: StateHarness) -> None:
    harness.append(("a", "before"))
    harness.machine.committed(harness.write(BeginTransactionRecord(), ConfigRecord(*GROUP, "a", "within")))
    harness.run_turns()
    harness.write(EndTransactionRecord(), ConfigRecord(*GROUP, "b", "after"))
    harness.lead()
    assert harness.config() == {"a": "within", "b": "after"}
    harness.machine.on_leadership_lost()
    assert harness.config() == {"a": "before"}
    harness.log.truncate(harness.machine.committed_offset)
    harness.machine.committed(harness.write(AbortTransactionRecord(), epoch=2))
    harness.run_turns()
    assert harness.config() == {"a": "before"}
    assert not harness.machine.image.in_transaction


def test_applied_timestamp_is_that_of_the_last_applied_batch(harness: StateHarness) -> None:
    assert harness.machine.applied_timestamp_ms == 0
    end = harness.append(("a", "1"))
    harness.start(end)
    assert harness.machine.applied_timestamp_ms == 1000
    base_offset = harness.log.end_offset
    control = encode_control_batch(base_offset, 1, 2000, [(b"\0\0\0\2", b"\0\0")])
    harness.log.append(control, base_offset + 1)
    harness.machine.committed(base_offset + 1)
    harness.run_turns()
    assert harness.machine.applied_timestamp_ms == 2000
    harness.lead()
    harness.run_turns()
    harness.machine.appended(base_offset + 2)
    assert harness.machine.applied_timestamp_ms == harness.time.clock.wall_ms() > 2000


def test_applied_timestamp_is_that_of_a_loaded_snapshot(harness: StateHarness) -> None:
    end = harness.append(("a", "1"))
    snapshot = OffsetAndEpoch(end, 1)
    write_snapshot(harness.disk, "/log", snapshot, [encode_record(ConfigRecord(*GROUP, "a", "1"), 0)])
    harness.log.snapshots.rescan()
    harness.start(end, snapshot)
    harness.run_turns()
    assert harness.machine.applied_timestamp_ms == harness.log.snapshots.timestamp_ms(snapshot) > 0


def test_uncommitted_changes_are_listed_newest_first(harness: StateHarness) -> None:
    harness.append(("a", "1"))
    harness.append(("a", "2"))
    harness.append(("a", "3"))
    harness.lead()
    harness.machine.committed(1)
    undo(harness.machine.uncommitted_changes())
    assert harness.config() == {"a": "1"}
