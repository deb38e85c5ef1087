"""A future log becomes a copy of the current one, whatever happens to that meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from quorumd.broker.replication.future_replica import align, is_caught_up
from tests.support.broker.memory_log import MemoryLog


class RecordingLog(MemoryLog):
    """A future log with its changes besides appends; on a disk, each of them writes files."""

    def __init__(self, epochs: Iterable[int] = (), start_offset: int = 0) -> None:
        self.changes: list[tuple[str, int]] = []
        super().__init__(epochs, start_offset)
        self.changes.clear()

    def start_epoch(self, epoch: int) -> None:
        self.changes.append(("epoch", epoch))
        super().start_epoch(epoch)

    def truncate(self, end_offset: int) -> None:
        self.changes.append(("truncate", end_offset))
        super().truncate(end_offset)

    def reset(self, start_offset: int) -> None:
        self.changes.append(("reset", start_offset))
        super().reset(start_offset)

    def delete_before(self, offset: int) -> None:
        self.changes.append(("delete", offset))
        super().delete_before(offset)


def copy(current: MemoryLog, future: MemoryLog, count: int = 1 << 30) -> None:
    """Copy at most `count` records, after the alignment."""
    for _ in range(100):
        if align(current, future):
            end = min(current.end_offset, future.end_offset + count)
            future.append_as_follower(current.read(future.end_offset, end), 0.0)
            return
    raise AssertionError("the alignment does not end")


def assert_same(current: MemoryLog, future: MemoryLog) -> None:
    assert is_caught_up(current, future)
    assert (future.start_offset, future.end_offset) == (current.start_offset, current.end_offset)
    count = current.end_offset - current.start_offset
    assert future.epochs[len(future.epochs) - count :] == current.epochs[len(current.epochs) - count :]
    assert future.last_epoch == current.last_epoch


def test_empty_log_is_copied_with_its_epochs() -> None:
    current, future = MemoryLog([1, 1, 3]), MemoryLog()
    copy(current, future, 2)
    assert not is_caught_up(current, future)
    copy(current, future)
    current.start_epoch(5)
    assert is_caught_up(current, future)
    assert_same(current, future)


def test_records_that_the_current_log_truncated_are_removed() -> None:
    current, future = MemoryLog([1, 1, 2, 2, 2]), MemoryLog()
    copy(current, future)
    current.truncate(2)
    current.append(3, 7)
    copy(current, future)
    assert_same(current, future)


def test_future_log_follows_a_current_one_that_became_shorter() -> None:
    current, future = MemoryLog([1, 1, 2]), MemoryLog()
    copy(current, future)
    current.truncate(1)
    copy(current, future)
    assert_same(current, future)


def test_log_without_epochs_and_records_is_a_prefix() -> None:
    current, future = MemoryLog([1, 1]), MemoryLog()
    copy(current, future)
    current.reset(2)
    future.delete_before(2)
    copy(current, future)
    current.append(1)
    copy(current, future)
    assert_same(current, future)


@pytest.mark.parametrize("start_offset", [5, 9])
def test_log_that_starts_later_is_copied_from_there(start_offset: int) -> None:
    current, future = MemoryLog([2], start_offset), MemoryLog([1] * 5)
    copy(current, future)
    assert future.start_offset == start_offset
    assert_same(current, future)


def test_start_of_the_future_log_follows() -> None:
    current, future = MemoryLog([1, 1, 1]), MemoryLog()
    copy(current, future)
    current.delete_before(2)
    copy(current, future)
    assert future.start_offset == 2


@pytest.mark.parametrize(
    ("current", "future", "changes"),
    [
        (MemoryLog(), RecordingLog(), []),
        (MemoryLog([1, 1]), RecordingLog([1, 1]), []),
        (MemoryLog([1, 1]), RecordingLog([1]), []),
        (MemoryLog([1], 5), RecordingLog((), 5), []),
        (MemoryLog([1, 1], 5), RecordingLog([1], 5), []),
        (MemoryLog([1], 5), RecordingLog([1] * 5), [("reset", 5)]),
        (MemoryLog([1], 5), RecordingLog([1] * 6), [("delete", 5)]),
        (MemoryLog([1, 1]), RecordingLog([1, 1, 1]), [("truncate", 2)]),
    ],
)
def test_aligned_log_is_changed_only_where_it_differs(
    current: MemoryLog, future: RecordingLog, changes: list[tuple[str, int]]
) -> None:
    while not align(current, future):
        pass
    assert future.changes == changes


def test_caught_up_log_gets_an_epoch_once() -> None:
    current, future = MemoryLog([1]), RecordingLog([1])
    current.start_epoch(3)
    assert is_caught_up(current, future)
    assert is_caught_up(current, future)
    assert future.changes == [("epoch", 3)]


def test_log_without_epochs_gives_none_to_its_copy() -> None:
    future = RecordingLog()
    assert is_caught_up(MemoryLog(), future)
    assert future.changes == []


@pytest.mark.parametrize("seed", range(50))
def test_any_history_ends_with_the_same_log(seed: int) -> None:
    dice = Random(seed)
    current, future, epoch = MemoryLog(), MemoryLog(), 1
    for _ in range(60):
        action = dice.randrange(6)
        if action == 0:
            epoch += 1 + dice.randrange(2)
            current.start_epoch(epoch)
        elif action == 1 and current.end_offset > current.start_offset:
            current.truncate(dice.randrange(current.start_offset, current.end_offset))
            epoch += 1
        elif action == 2 and dice.random() < 0.3:
            current.reset(current.end_offset + dice.randrange(5))
        elif action == 3:
            copy(current, future, dice.randrange(4))
        else:
            current.append(epoch, dice.randrange(1000))
    copy(current, future)
    assert_same(current, future)
