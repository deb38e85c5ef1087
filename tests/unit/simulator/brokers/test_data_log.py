"""Logs and their epochs: divergence of two logs and truncation of a follower (cases of the replication
description)."""

import pytest

from quorumd.simulator.brokers.data_log import DataLog, EpochEnd, Record, decode, encode


def log_of(*epochs: int, leads_in: int | None = None) -> DataLog:
    log = DataLog(Record(epoch, offset) for offset, epoch in enumerate(epochs))
    if leads_in is not None:
        log.begin_epoch(leads_in)
    return log


CASES = {
    "A": ((1, 1), (1, 1, 1, 1), 2, None, 2),
    "B": ((1, 1), (1, 1, 2, 2), 3, None, 2),
    "C": ((1, 1, 1, 1), (1, 1), 2, EpochEnd(1, 2), 2),
    "D": ((1, 1, 2, 2), (1, 1), 3, EpochEnd(1, 2), 2),
    "E": ((1, 1, 2, 2), (1, 1, 3, 3), 4, EpochEnd(1, 2), 2),
    "F": ((1, 2, 2), (1, 1), 3, EpochEnd(1, 2), 1),
    "G": ((2,), (1, 3), 4, EpochEnd(1, 1), 0),
}


@pytest.mark.parametrize("name", CASES)
def test_divergence_from_the_leaders_log(name: str) -> None:
    follows, leads, leader_epoch, diverging, end_offset = CASES[name]
    follower, leader = log_of(*follows), log_of(*leads, leads_in=leader_epoch)
    assert leader.divergence(follower.last_epoch, follower.end_offset) == diverging
    if diverging is not None:
        follower.truncate(follower.truncation_offset(diverging))
    assert follower.end_offset == end_offset
    assert follower.last_epoch == (follows[end_offset - 1] if end_offset else -1)


def test_ends_of_epochs() -> None:
    log = log_of(1, 1, 3, leads_in=5)
    assert [log.end_of(epoch) for epoch in (1, 2, 3, 4, 5)] == [(1, 2), (1, 2), (3, 3), (3, 3), (5, 3)]
    assert log.end_of(0) == EpochEnd(0, 0)
    assert log.end_of(6) is None
    assert DataLog().end_of(1) is None


def test_truncation_removes_epochs_and_flushed_records() -> None:
    log = log_of(1, 2, 2)
    log.flush()
    log.truncate(1)
    assert (log.end_offset, log.flushed, log.epochs) == (1, 1, [(1, 0)])
    log.truncate(3)
    assert log.end_offset == 1


def test_epoch_without_records_is_forgotten_when_older_records_come() -> None:
    log = DataLog()
    log.begin_epoch(4)
    log.append([Record(2, 1), Record(2, 2)])
    assert log.epochs == [(2, 0)]
    assert log.end_of(2) == EpochEnd(2, 2)


def test_records_have_bytes() -> None:
    records = [Record(1, 2), Record(3, 1 << 40)]
    assert decode(encode(records)) == records
