"""Logs of the model: records with their leader epochs."""

from quorumd.ids import OffsetAndEpoch
from quorumd.simulator.brokers.data_log import DataLog, Record, decode, encode


def log_of(*epochs: int, leads_in: int | None = None) -> DataLog:
    log = DataLog(Record(epoch, offset) for offset, epoch in enumerate(epochs))
    if leads_in is not None:
        log.start_epoch(leads_in)
    return log


def test_ends_of_epochs() -> None:
    log = log_of(1, 1, 3, leads_in=5)
    ends = [log.end_of_epoch(epoch) for epoch in (0, 1, 2, 3, 5, 6)]
    at = OffsetAndEpoch
    assert ends == [at(0, 0), at(2, 1), at(2, 1), at(3, 3), at(3, 5), None]
    assert (log.last_epoch, DataLog().last_epoch) == (5, -1)


def test_truncation_removes_epochs_and_flushed_records() -> None:
    log = log_of(1, 2, 2)
    log.flush()
    log.truncate(1)
    assert (log.end_offset, log.flushed, log.epochs) == (1, 1, [(1, 0)])
    log.truncate(3)
    assert log.end_offset == 1


def test_truncation_removes_epochs_without_records_at_the_log_end() -> None:
    log = log_of(1, leads_in=4)
    log.truncate(1)
    assert (log.end_offset, log.epochs) == (1, [(1, 0)])


def test_follower_appends_the_records_of_its_leader() -> None:
    log = log_of(1, leads_in=4)
    assert log.append_as_follower(encode([Record(2, 1), Record(2, 2)]), 0.0) == 3
    assert log.epochs == [(1, 0), (2, 1)]


def test_records_have_bytes() -> None:
    records = [Record(1, 2), Record(3, 1 << 40)]
    assert decode(encode(records)) == records
