"""Consumers of the metadata log read what is committed."""

from __future__ import annotations

import pytest

from quorumd.protocol.record_batch import encode_batch
from quorumd.simulator.checkers import InvariantViolation, Observation
from quorumd.simulator.checkers.consumers import ConsumersReadCommitted
from quorumd.simulator.checkers.logs import CommittedDataIsImmutable
from quorumd.simulator.inspection.log_mirror import Batch


def batch(base_offset: int, value: bytes) -> bytes:
    return encode_batch(base_offset, 1, 1, [value])


FIRST, SECOND = batch(0, b"first"), batch(1, b"second")


def checker() -> ConsumersReadCommitted:
    committed = CommittedDataIsImmutable()
    log = [Batch(0, 1, 1, False, FIRST), Batch(1, 2, 1, False, SECOND)]
    committed.observed(Observation(1, 1, 1, log=log, high_watermark=2))
    return ConsumersReadCommitted(committed)


def test_committed_batches_are_accepted() -> None:
    checked = checker()
    assert checked.received(0, 2, FIRST + SECOND) == 2
    assert checked.received(1, 2, SECOND) == 2
    assert checked.received(2, 2, b"") == 2
    assert checked.checked == 3


@pytest.mark.parametrize(
    ("fetch_offset", "high_watermark", "records"),
    [
        (0, 3, FIRST),  # the high watermark exceeds what is committed
        (0, 2, batch(0, b"other")),  # another record
        (2, 2, batch(2, b"third")),  # a record that is not committed
        (0, 2, SECOND),  # the first batch is missing
    ],
)
def test_other_batches_are_violations(fetch_offset: int, high_watermark: int, records: bytes) -> None:
    with pytest.raises(InvariantViolation):
        checker().received(fetch_offset, high_watermark, records)
