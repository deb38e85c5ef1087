"""A node that does not know a record stops before it writes anything."""

from __future__ import annotations

import pytest

from quorumd.errors import CorruptLog, UnknownRecord
from quorumd.node.state.log_validation import validate_fetched
from quorumd.node.state.snapshot_loader import find_start_snapshot
from quorumd.protocol.record_batch import encode_batch
from quorumd.simulator.environment.disk import SimulatedDisk
from tests.support.log.config_logs import ConfigLog
from tests.support.log.small_logs import fresh_disk

FUTURE = b"\1\x63\0\0"


@pytest.fixture
def disk() -> SimulatedDisk:
    return fresh_disk(1)


def test_log_with_a_record_of_a_later_version_is_rejected_unchanged(disk: SimulatedDisk) -> None:
    log = ConfigLog(disk)
    log.set_configs(0, 500)
    log.append_values(FUTURE)
    before = disk.contents()
    text = (
        r"the log cannot be applied at offset 502: unknown metadata record type 99; upgrade this node to the "
        r"version that wrote it\. Nothing was changed"
    )
    with pytest.raises(UnknownRecord, match=text):
        find_start_snapshot(log.log)
    assert disk.contents() == before


def test_valid_log_without_snapshot_starts_at_offset_0(disk: SimulatedDisk) -> None:
    log = ConfigLog(disk)
    log.set_configs(0, 5)
    assert find_start_snapshot(log.log).offset == 0


def test_fetched_batches_with_unknown_records_are_rejected() -> None:
    validate_fetched(encode_batch(5, 1, 1, [b"\1\x04\0"]))
    with pytest.raises(UnknownRecord, match=r"leader.* offset 5: .*record type 99\b"):
        validate_fetched(encode_batch(5, 1, 1, [FUTURE]))
    with pytest.raises(CorruptLog, match="at offset 6"):
        validate_fetched(encode_batch(5, 1, 1, [b"\1\x04\0", b"\2\x04\0"]))
