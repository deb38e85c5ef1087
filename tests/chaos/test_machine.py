"""Bounds of time do not count what the machine stood still."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.chaos import machine
from tests.chaos.machine import MachineWatch, Patience, Stall


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MachineWatch:
    """One that looks no more: its stalls are those of the test."""
    watch = MachineWatch(tmp_path)
    watch.stop()
    watch.stalls.clear()
    watch._look_began = float("inf")
    return watch


def test_stalls_count_as_far_as_they_are_within_the_time(watch: MachineWatch) -> None:
    watch.stalls += [Stall(0, 2), Stall(5, 6), Stall(9, 20)]
    assert watch.stalled_s(1, 10) == 1 + 1 + 1
    assert watch.stalled_s(2, 5) == 0
    watch._look_began = 30
    assert watch.stalled_s(25, 33) == 3
    assert "3 times" in watch.told()
    assert "11.0 s at the longest" in watch.told()


def test_patience_is_longer_by_what_the_machine_stood_still_and_not_without_end(
    watch: MachineWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(machine.time, "monotonic", lambda: now)
    patience = Patience(15, watch)
    now = 114.0
    assert not patience.is_over
    now = 116.0
    assert patience.is_over
    watch.stalls.append(Stall(101, 106))
    assert not patience.is_over
    watch.stalls.append(Stall(106, 1000))
    now = 240.0
    assert not patience.is_over
    now = 251.0
    assert patience.is_over


def test_a_slow_look_is_a_stall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "STALL_S", 0.0)
    watch = MachineWatch(tmp_path)
    deadline = time.monotonic() + 10
    while not watch.stalls and time.monotonic() < deadline:
        time.sleep(0.01)
    watch.stop()
    assert watch.stalls
    assert (tmp_path / "flushed").exists()
