"""The runner writes fetched snapshot chunks, checks the snapshot in the background and installs it.

The log and its files are real, on a simulated disk; engine and disk queue are scripted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from typing import Any, cast

import pytest

from quorumd.errors import FlushFailed, StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.log.snapshot_file import file_name
from quorumd.node.consensus.raft_runner import RaftRunner
from quorumd.node.wire.voter_records import VoterRecord
from quorumd.ports import Disk
from quorumd.protocol.messages.voters_record import VotersRecord
from quorumd.raft.effects import Effects, Send, SnapshotChunk
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import PeerRequestFailed, SnapshotChecked
from tests.support.log.small_logs import (
    batch,
    fail_with_disk_full,
    fail_with_io_error,
    fill,
    fresh_disk,
    open_log,
)
from tests.support.log.snapshots import voters_record, write_snapshot
from tests.support.node.parts import NodeParts
from tests.support.node.runner_harness import (
    ANY_EVENT,
    ManualDisk,
    SteppedEngine,
    fetch,
    outputs_of,
    response_recorded_in,
)

SNAPSHOT = OffsetAndEpoch(100, 3)
FILE = file_name(SNAPSHOT)


def content(voters: VotersRecord | None = None) -> bytes:
    """The bytes of a valid snapshot."""
    disk = fresh_disk(9)
    write_snapshot(disk, "log", SNAPSHOT, voters=voters)
    file = disk.open(f"log/{FILE}")
    return file.read_at(0, file.size())


class SnapshotFetchHarness(NodeParts):
    """A runner on a real log of 10 records of epoch 1; `seen` records its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = fresh_disk(1)
        self.log = open_log(self.disk, "log")
        fill(self.log, 10)
        self.log.begin_flush()()
        self.queue = ManualDisk()
        self.seen: list[str] = []
        self.voters: VoterRecord | None = None
        self.fatal_errors: list[BaseException | str] = []
        self.runner = RaftRunner(
            self.basics,
            cast(RaftEngine, self.engine),
            self.log,
            cast(Disk, self.queue),
            self.tick,
            self.on_fatal_error,
        )
        self.runner.start(outputs_of(self))
        self.engine.events.clear()

    @cached_property
    def engine(self) -> SteppedEngine:
        return SteppedEngine()

    def step(self, effects: Effects) -> None:
        self.engine.script.append(effects)
        self.runner.step(ANY_EVENT)

    def keep(self, data: bytes, position: int = 0, size: int | None = None) -> None:
        size = position + len(data) if size is None else size
        self.step(Effects(snapshot_chunk=SnapshotChunk(SNAPSHOT, position, data, size)))

    def names(self) -> list[str]:
        return [name for name in self.disk.list_directory("log") if ".checkpoint" in name]

    def checked(self) -> SnapshotChecked | None:
        """The reported check of the snapshot, None if there was none."""
        reported = [event for event in self.engine.events if isinstance(event, SnapshotChecked)]
        assert len(reported) <= 1
        return reported[0] if reported else None

    # Calls of the runner

    def send(self, send: Send) -> None:
        self.seen.append(f"fetch at {cast(Any, send.request).offset}")

    def prepare(self, send: Send) -> None:
        """Ignored."""

    def truncated(self, end_offset: int) -> None:
        self.seen.append(f"truncated {end_offset}")

    def restarted(self, snapshot: OffsetAndEpoch, voters: VoterRecord | None) -> None:
        self.seen.append(f"restarted at {snapshot.offset}, log ends at {self.log.end_offset}")
        self.voters = voters

    def committed(self, high_watermark: int) -> None:
        self.seen.append(f"committed {high_watermark}")

    def on_flush_completed(self) -> None:
        """Ignored."""

    def on_fatal_error(self, error: BaseException | str) -> None:
        self.fatal_errors.append(error)
        self.runner.stop()


@pytest.fixture
def node() -> SnapshotFetchHarness:
    return SnapshotFetchHarness()


# Writing and checking


def test_chunks_are_written_and_the_complete_snapshot_is_checked_in_the_background(
    node: SnapshotFetchHarness,
) -> None:
    data = content()
    node.keep(data[:50], size=len(data))
    assert node.log.fetched_bytes(SNAPSHOT) == 50
    assert node.queue.queue == []
    node.keep(data[50:], 50)
    assert len(node.queue.queue) == 1
    assert (node.log.latest_snapshot, node.names(), node.checked()) == (None, [f"{FILE}.part"], None)
    node.queue.finish()
    assert (node.log.latest_snapshot, node.names()) == (SNAPSHOT, [FILE])
    checked = node.checked()
    assert checked is not None
    assert checked.voters is not None
    assert (checked.snapshot, checked.voters.current.ids) == (SNAPSHOT, (1, 2, 3))


@pytest.mark.parametrize("flipped", [30, 100, -10])
def test_corrupt_snapshot_is_never_published(
    node: SnapshotFetchHarness, flipped: int, caplog: pytest.LogCaptureFixture
) -> None:
    data = bytearray(content())
    data[flipped] ^= 1
    node.keep(bytes(data))
    node.queue.finish()
    assert node.checked() == SnapshotChecked(SNAPSHOT, None)
    assert (node.log.latest_snapshot, node.names(), node.log.fetched_bytes(SNAPSHOT)) == (None, [], 0)
    assert node.fatal_errors == []
    assert FILE in caplog.text


def test_snapshot_with_an_invalid_voter_set_is_quarantined(node: SnapshotFetchHarness) -> None:
    node.keep(content(voters_record(1, 1)))
    node.queue.finish()
    assert node.checked() == SnapshotChecked(SNAPSHOT, None)
    assert (node.log.latest_snapshot, node.names()) == (None, [f"{FILE}.corrupt"])
    assert node.fatal_errors == []


@pytest.mark.parametrize("fault", [fail_with_disk_full, fail_with_io_error])
def test_failed_write_of_a_chunk_discards_only_the_snapshot(
    node: SnapshotFetchHarness,
    fault: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = content()
    node.keep(data[:50], size=len(data))
    file = type(node.disk.open(f"log/{FILE}.part"))
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(file, "write_at", fault)
        node.keep(data[50:], 50)
    assert node.checked() is None, "the engine must not be stepped within a step"
    node.time.end_turn()
    assert node.checked() == SnapshotChecked(SNAPSHOT, None)
    assert (node.names(), node.queue.queue, node.fatal_errors) == ([], [], [])
    assert FILE in caplog.text


def test_snapshot_that_cannot_be_renamed_is_fetched_again(node: SnapshotFetchHarness) -> None:
    node.keep(content())
    node.queue.finish(StorageError("no rename"))
    assert node.checked() == SnapshotChecked(SNAPSHOT, None)
    assert node.fatal_errors == []


@pytest.mark.parametrize("fault", [FlushFailed("the directory"), OSError(5, "EIO")])
def test_disk_failure_during_the_check_stops_the_node(node: SnapshotFetchHarness, fault: Exception) -> None:
    node.keep(content())
    node.queue.finish(fault)
    (fatal_errors,) = node.fatal_errors
    assert isinstance(fatal_errors, FlushFailed)
    assert node.checked() is None


def test_check_that_ends_after_stop_is_ignored(node: SnapshotFetchHarness) -> None:
    node.keep(content())
    node.runner.stop()
    node.queue.finish()
    assert node.checked() is None


# Replacing the log


def arrived(node: SnapshotFetchHarness, voters: VotersRecord | None = None) -> SnapshotFetchHarness:
    node.keep(content(voters))
    node.queue.finish()
    node.engine.events.clear()
    return node


def test_log_restarts_at_the_snapshot_before_other_effects(node: SnapshotFetchHarness) -> None:
    arrived(node, voters_record(4, 5))
    node.step(Effects(reset_to_snapshot=SNAPSHOT, send_after_flush=[fetch(100)], new_high_watermark=100))
    assert node.seen == ["restarted at 100, log ends at 100", "fetch at 100", "committed 100"]
    assert (node.log.start_offset, node.log.end_offset, node.log.last_epoch) == (100, 100, 3)
    assert node.voters is not None
    assert node.voters.offset == 99
    assert node.voters.assignment.current.ids == (4, 5)
    assert node.runner.durable_offset == 100


def test_durable_offset_of_a_longer_old_log_does_not_apply_to_the_new_one(node: SnapshotFetchHarness) -> None:
    fill(node.log, 150 - node.log.end_offset, epoch=2)
    node.step(Effects(append=batch(150, 2), append_end_offset=151))
    node.queue.finish()
    arrived(node)
    node.step(Effects(reset_to_snapshot=SNAPSHOT))
    assert node.runner.durable_offset == 100
    node.seen.clear()
    node.step(Effects(append=batch(100, 3), append_end_offset=101, send_after_flush=[fetch(101)]))
    assert node.seen == []
    node.queue.finish()
    assert node.seen == ["fetch at 101"]


@pytest.mark.parametrize("more", [5, 140], ids=["a shorter log", "a longer log"])
def test_flush_started_before_the_restart_makes_nothing_after_it_durable(
    node: SnapshotFetchHarness, more: int
) -> None:
    arrived(node)
    fill(node.log, more, epoch=2)
    end = node.log.end_offset
    node.step(Effects(append=batch(end, 2), append_end_offset=end + 1))
    node.step(Effects(reset_to_snapshot=SNAPSHOT))
    node.step(Effects(append=batch(100, 3), append_end_offset=101, send_after_flush=[fetch(101)]))
    node.seen.clear()
    node.queue.finish()
    assert (node.seen, node.runner.durable_offset) == ([], 100)
    node.queue.finish()
    assert (node.seen, node.runner.durable_offset) == (["fetch at 101"], 101)


def test_flush_that_ended_before_the_restart_but_is_reported_later_does_not_count(
    node: SnapshotFetchHarness,
) -> None:
    arrived(node)
    fill(node.log, 140, epoch=2)
    node.step(Effects(append=batch(150, 2), append_end_offset=151))
    ((operation, done),) = node.queue.queue
    outcome = operation()
    assert outcome == 151
    node.queue.queue[:] = [(lambda: outcome, done)]
    node.step(Effects(reset_to_snapshot=SNAPSHOT))
    node.queue.finish()
    assert node.runner.durable_offset == 100


def test_restart_fails_fetches_that_waited_for_the_old_log_and_sends_responses(
    node: SnapshotFetchHarness,
) -> None:
    arrived(node)
    held = fetch(11)
    node.step(
        Effects(
            append=batch(10), append_end_offset=11, send_after_flush=[held, response_recorded_in(node.seen)]
        )
    )
    node.step(Effects(reset_to_snapshot=SNAPSHOT))
    node.time.end_turn()
    assert node.engine.events[-1] == PeerRequestFailed(2, held.request)
    assert node.seen == ["response", "restarted at 100, log ends at 100"]


def test_failed_replacement_of_the_log_stops_the_node(
    node: SnapshotFetchHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived(node)
    monkeypatch.setattr(node.disk, "sync_directory", fail_with_io_error)
    node.step(Effects(reset_to_snapshot=SNAPSHOT, send=[response_recorded_in(node.seen)]))
    (fault,) = node.fatal_errors
    assert isinstance(fault, FlushFailed)
    assert node.seen == []


def test_restarted_log_is_recovered_at_the_next_start(node: SnapshotFetchHarness) -> None:
    arrived(node)
    node.step(Effects(reset_to_snapshot=SNAPSHOT))
    node.step(Effects(append=batch(100, 3), append_end_offset=101))
    node.queue.finish()
    node.log.close()
    again = open_log(node.disk, "log")
    assert (again.start_offset, again.end_offset, again.latest_snapshot) == (100, 101, SNAPSHOT)
