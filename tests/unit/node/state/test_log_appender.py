"""Batches of record values on their way to the log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from quorumd.node.state.log_appender import LogAppender
from quorumd.protocol.record_batch import headers


class Harness:
    """An appender with a scripted engine and runner; `appended`: end offsets that the state machine has received."""

    def __init__(self) -> None:
        self.has_free_space = True
        self.batches: list[bytes] = []
        self.appended: list[int] = []
        self.statistics: Any = SimpleNamespace(appended_records=0)
        engine: Any = SimpleNamespace(epoch=4, is_leader=True)
        self.engine = engine
        clock = SimpleNamespace(wall_ms=lambda: 1000)
        node: Any = SimpleNamespace(clock=clock, statistics=self.statistics)
        quorum: Any = SimpleNamespace(engine=engine, log=SimpleNamespace(end_offset=10))
        machine: Any = SimpleNamespace(appended=self.appended.append)
        self.appender = LogAppender(node, quorum, machine, self._propose)

    def _propose(self, batch: bytes, end_offset: int) -> bool:
        self.batches.append(batch)
        return self.has_free_space


def test_batch_continues_the_log_in_the_epoch_of_the_leader() -> None:
    harness = Harness()
    assert harness.appender.append([b"one", b"two"]) == 12
    (header,) = headers(harness.batches[0])
    assert (header.base_offset, header.end_offset, header.epoch) == (10, 12, 4)
    assert (harness.appended, harness.statistics.appended_records) == ([12], 2)


def test_nothing_is_appended_without_room_or_leadership() -> None:
    harness = Harness()
    harness.has_free_space = False
    assert harness.appender.append([b"one"]) is None
    harness.engine.is_leader = False
    assert harness.appender.append([b"one"]) is None
    assert len(harness.batches) == 1
    assert (harness.appended, harness.statistics.appended_records) == ([], 0)
