"""Faults that properties for tests switch on: the clock and the disk are wrong in that one way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from errno import EIO
from pathlib import Path

import pytest

from quorumd.config import load
from quorumd.runtime.clock import LoopClock
from quorumd.runtime.fault_injection import FlushFailingDisk, SkewedClock
from tests.support.text import shows

DAY_MS = 86_400_000


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_wrong_clock_is_off_by_its_offset_and_monotonic_time_is_right(
    loop: asyncio.AbstractEventLoop,
) -> None:
    right, wrong = LoopClock(loop), SkewedClock(loop, -DAY_MS)
    before, reported, after = right.wall_ms(), wrong.wall_ms(), right.wall_ms()
    assert before <= reported + DAY_MS <= after
    before, reported, after = right.now_ms(), wrong.now_ms(), right.now_ms()
    assert before <= reported <= after


def test_flushes_work_until_they_are_used_up_over_all_files(tmp_path: Path) -> None:
    disk = FlushFailingDisk(3, lambda callback: callback())
    first, second = (disk.open(str(tmp_path / name), create=True) for name in ("first", "second"))
    first.write_at(0, b"abc")
    for file in (first, second, first):
        file.sync()
    for file in (first, second):
        with pytest.raises(OSError) as failure:
            file.sync()
        assert failure.value.errno == EIO
    assert first.read_at(0, 10) == b"abc"
    first.close()
    second.close()


def test_properties_file_may_configure_faults_without_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    lines = ["node.id=1", "quorum.voters=1", f"log.dirs={tmp_path}", "listeners=PLAINTEXT://127.0.0.1:0"]
    file.write_text("\n".join([*lines, "internal.clock.offset.ms=-5000", "internal.fail.flush.after=7"]))
    settings = load(str(file))
    assert (settings.clock_offset_ms, settings.fail_flush_after) == (-5000, 7)
    file.write_text("\n".join([*lines, "internal.fail.flush.aftr=7", "nonsense=1"]))
    reported = "\n".join(load(str(file)).warnings())
    assert shows(reported, "internal.fail.flush.aftr", "unknown")
    assert "internal.fail.flush.after" not in reported
    assert "internal.clock" not in reported
