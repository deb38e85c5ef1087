"""Batches of record values on their way to the log."""

from __future__ import annotations

from quorumd.node.state.log_appender import LogAppender
from quorumd.protocol.batch_scan import headers
from tests.support.node.parts import NodeParts

RECORDS = 10


class AppenderHarness(NodeParts):
    """The appender of a leader whose log holds RECORDS; `batches`: those it proposed."""

    def __init__(self) -> None:
        super().__init__()
        self.has_free_space = True
        self.batches: list[bytes] = []
        self.append(*((f"key {number}", "value") for number in range(RECORDS)))
        self.lead()
        self.appender = LogAppender(self.basics, self.quorum(), self.machine, self._propose)

    def _propose(self, batch: bytes, end_offset: int) -> bool:
        self.batches.append(batch)
        return self.has_free_space


def test_batch_continues_the_log_in_the_epoch_of_the_leader() -> None:
    harness = AppenderHarness()
    assert harness.appender.append([b"one", b"two"]) == RECORDS + 2
    (header,) = headers(harness.batches[0])
    assert (header.base_offset, header.end_offset) == (RECORDS, RECORDS + 2)
    assert header.epoch == harness.engine.epoch
    assert (harness.machine.applied_offset, harness.statistics.appended_records) == (RECORDS + 2, 2)


def test_nothing_is_appended_without_room_or_leadership() -> None:
    harness = AppenderHarness()
    harness.has_free_space = False
    assert harness.appender.append([b"one"]) is None
    harness.engine.is_leader = False
    assert harness.appender.append([b"one"]) is None
    assert len(harness.batches) == 1
    assert (harness.machine.applied_offset, harness.statistics.appended_records) == (RECORDS, 0)
