"""When the high watermark is saved, and what a full disk that refuses it makes of that."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.errors import DiskFull
from quorumd.node.consensus.high_watermark_checkpointer import HighWatermarkCheckpointer

FOLDER = "/data"


class Saving:
    """A saver over a disk that does what it is asked when `step` says so."""

    def __init__(self) -> None:
        self.durable = 0
        self.outcomes: list[object] = []
        self.under_way: list[tuple[Callable[[], object], Callable[[object], None]]] = []
        self.saver = HighWatermarkCheckpointer(
            self,
            FOLDER,
            0,
            lambda: self.durable,
            self.outcomes.append,  # type: ignore[arg-type]  # only `submit`
        )

    def submit(self, operation: Callable[[], object], done: Callable[[object], None]) -> None:
        self.under_way.append((operation, done))

    def step(self, *, refused: bool = False) -> None:
        _, done = self.under_way.pop(0)
        done(DiskFull("no room") if refused else None)


def test_what_is_sealed_is_saved_once() -> None:
    saving = Saving()
    saving.durable = 9
    saving.saver.save_if_sealed(10)
    assert not saving.under_way
    saving.durable = 12
    saving.saver.save_if_sealed(10)
    saving.saver.save_if_sealed(10)
    assert len(saving.under_way) == 1
    saving.step()
    assert (saving.saver.saved, saving.saver.durable_checkpoint) == (12, 12)
    saving.saver.save_if_sealed(10)
    assert not saving.under_way


def test_what_a_full_disk_refused_is_tried_again() -> None:
    saving = Saving()
    saving.durable = 12
    saving.saver.save_if_sealed(10)
    saving.step(refused=True)
    assert isinstance(saving.outcomes[0], DiskFull)
    saving.saver.save_if_sealed(10)
    assert len(saving.under_way) == 1
    saving.step()
    assert saving.saver.durable_checkpoint == 12


def test_a_later_save_stands_when_an_earlier_one_is_refused() -> None:
    saving = Saving()
    for durable in (12, 20):
        saving.durable = durable
        saving.saver.save()
    saving.step(refused=True)
    saving.saver.save()
    assert len(saving.under_way) == 1
    saving.step()
    assert (saving.saver.saved, saving.saver.durable_checkpoint) == (20, 20)
