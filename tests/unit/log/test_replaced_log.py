"""A log that a snapshot has replaced is read and searched like a new one."""

from __future__ import annotations

import pytest

from quorumd.ids import OffsetAndEpoch
from quorumd.simulator.environment.disk import SimulatedDisk
from tests.support.log.small_logs import batch, fill, open_log, read_all, without_cache


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("start", [4, 40])
def test_records_after_the_snapshot_are_found(
    memory_disk: SimulatedDisk, directory: str, start: int, cached: bool
) -> None:
    """Also if the replaced log, of an earlier epoch, was longer."""
    log = open_log(memory_disk, directory)
    fill(log, 30, epoch=1)
    log.reset_to_snapshot(OffsetAndEpoch(start, 3))
    if not cached:
        without_cache(log)
    later = [batch(offset, 4) for offset in range(start, start + 20)]
    for offset, data in enumerate(later, start):
        log.append(data, offset + 1)
    assert log.seek_hint(start) == (start, 0)
    assert read_all(log) == b"".join(later)
    log.close()
