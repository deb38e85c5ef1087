"""When the high watermark is saved, and the effects of a full disk."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.errors import DiskFull
from quorumd.node.consensus.high_watermark_checkpointer import HighWatermarkCheckpointer

DATA_DIRECTORY = "/data"


class CheckpointerHarness:
    """A checkpointer on a disk that completes operations when `step` is called."""

    def __init__(self) -> None:
        self.durable = 0
        self.outcomes: list[object] = []
        self.under_way: list[tuple[Callable[[], object], Callable[[object], None]]] = []
        self.checkpointer = HighWatermarkCheckpointer(
            self,
            DATA_DIRECTORY,
            0,
            lambda: self.durable,
            self.outcomes.append,  # type: ignore[arg-type]  # only `submit`
        )

    def submit(self, operation: Callable[[], object], done: Callable[[object], None]) -> None:
        self.under_way.append((operation, done))

    def step(self, *, refused: bool = False) -> None:
        _, done = self.under_way.pop(0)
        done(DiskFull("no room") if refused else None)


def test_sealed_segment_is_checkpointed_once() -> None:
    harness = CheckpointerHarness()
    harness.durable = 9
    harness.checkpointer.save_if_sealed(10)
    assert not harness.under_way
    harness.durable = 12
    harness.checkpointer.save_if_sealed(10)
    harness.checkpointer.save_if_sealed(10)
    assert len(harness.under_way) == 1
    harness.step()
    assert (harness.checkpointer.saved, harness.checkpointer.durable_checkpoint) == (12, 12)
    harness.checkpointer.save_if_sealed(10)
    assert not harness.under_way


def test_save_rejected_by_a_full_disk_is_retried() -> None:
    harness = CheckpointerHarness()
    harness.durable = 12
    harness.checkpointer.save_if_sealed(10)
    harness.step(refused=True)
    assert isinstance(harness.outcomes[0], DiskFull)
    harness.checkpointer.save_if_sealed(10)
    assert len(harness.under_way) == 1
    harness.step()
    assert harness.checkpointer.durable_checkpoint == 12


def test_later_save_counts_when_an_earlier_one_is_rejected() -> None:
    harness = CheckpointerHarness()
    for durable in (12, 20):
        harness.durable = durable
        harness.checkpointer.save()
    harness.step(refused=True)
    harness.checkpointer.save()
    assert len(harness.under_way) == 1
    harness.step()
    assert (harness.checkpointer.saved, harness.checkpointer.durable_checkpoint) == (20, 20)


def test_segment_that_is_durable_exactly_to_its_end_is_checkpointed() -> None:
    harness = CheckpointerHarness()
    harness.durable = 10
    harness.checkpointer.save_if_sealed(10)
    assert len(harness.under_way) == 1
