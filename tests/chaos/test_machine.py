"""Timeouts do not count time that the machine lost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.chaos import machine
from tests.chaos.machine import MachineWatch, Patience, Sample


@pytest.fixture
def watch(tmp_path: Path) -> MachineWatch:
    """A stopped watch without samples; the test sets the late samples."""
    watch = MachineWatch(tmp_path)
    watch.stop()
    watch.late.clear()
    watch._began = 0
    watch._sample_began = float("inf")
    return watch


def test_stalls_within_the_interval_are_lost(watch: MachineWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    watch.late += [Sample(0, 2), Sample(5, 6), Sample(9, 20)]
    assert watch.lost_s(1, 10) == 1 + 1 + 1
    assert watch.lost_s(2, 5) == 0
    watch._sample_began = 30
    assert watch.lost_s(25, 33) == 3
    watch._sample_began = float("inf")
    monkeypatch.setattr(machine.time, "monotonic", lambda: 40.0)
    assert watch.summary() == (
        "stood still 3 times for more than 0.25 s, 14 s in all, 11.0 s at the longest; "
        "14 of 40 s were lost to its slowness"
    )


def test_short_gaps_between_stalls_are_lost_too(watch: MachineWatch) -> None:
    watch.late += [Sample(10, 11), Sample(12.5, 13), Sample(15.5, 16)]
    assert watch.lost_s(0, 20) == 3 + 0.5, "a gap of 1.5 s is too short for an election, 2.5 s are enough"
    assert watch.lost_s(11.5, 20) == 1.5 + 0.5
    assert watch.lost_s(0, 12) == 1


def test_delay_of_a_late_sample_is_lost(watch: MachineWatch) -> None:
    watch.late += [Sample(10, 10.25), Sample(20, 20.2)]
    assert watch.lost_s(0, 30) == pytest.approx(0.1 + 0.05)
    watch.late += [Sample(29, 30), Sample(30.2, 30.4), Sample(30.5, 31.5)]
    assert watch.lost_s(25, 32) == pytest.approx(2.5), "a delay between two stalls is not lost twice"


def test_patience_is_extended_by_stalls_up_to_a_limit(
    watch: MachineWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(machine.time, "monotonic", lambda: now)
    patience = Patience(15, watch)
    now = 114.0
    assert not patience.is_over
    now = 116.0
    assert patience.is_over
    watch.late.append(Sample(101, 106))
    assert not patience.is_over
    watch.late.append(Sample(106, 1000))
    now = 240.0
    assert not patience.is_over
    now = 251.0
    assert patience.is_over


def test_slow_sample_is_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "USUAL_S", 0.0)
    watch = MachineWatch(tmp_path)
    deadline = time.monotonic() + 300
    while not watch.late and time.monotonic() < deadline:
        time.sleep(0.01)
    watch.stop()
    assert watch.late
    assert (tmp_path / "flushed").exists()
