from __future__ import annotations

from quorumd.raft.effects import ReadReady
from quorumd.raft.read_index import ReadRounds


def test_read_is_confirmed_by_its_own_round_and_by_later_ones() -> None:
    reads = ReadRounds()
    reads.add("a", 5, 9)
    assert reads.current == 1
    assert reads.confirm(0, 5) == []
    assert reads.confirm(1, 9) == [ReadReady("a", 5)]
    assert reads.confirm(2, 9) == []


def test_reads_share_a_round_until_response_carried_it() -> None:
    reads = ReadRounds()
    reads.add("a", 5, 9)
    reads.add("b", 6, 9)
    assert reads.stamp_response() == 1
    reads.add("c", 7, 9)
    assert reads.stamp_response() == 2
    assert reads.confirm(1, 8) == [ReadReady("a", 5), ReadReady("b", 6)]
    assert reads.confirm(2, 8) == [ReadReady("c", 7)]


def test_without_high_watermark_nothing_is_ready() -> None:
    reads = ReadRounds()
    reads.add("a", -1, 9)
    assert reads.confirm(1, -1) == []
    assert reads.confirm(1, 4) == [ReadReady("a", 4)]


def test_fetch_behind_the_newest_round_completes_immediately() -> None:
    reads = ReadRounds()
    assert not reads.has_newer_round(0)
    reads.add("a", 5, 9)
    assert reads.has_newer_round(0)
    assert not reads.has_newer_round(1)


def test_abandoned_reads_are_returned_once() -> None:
    reads = ReadRounds()
    reads.add("a", 5, 9)
    assert reads.drain() == ["a"]
    assert reads.drain() == []


def test_fetch_beyond_the_log_end_of_a_read_confirms_it() -> None:
    reads = ReadRounds()
    reads.add("a", 5, 9)
    assert reads.round_confirmed_by(9) == 0, (
        "a fetch at the log end may have been in flight when the read was requested"
    )
    assert reads.round_confirmed_by(10) == 1


def test_reads_of_different_log_ends_do_not_share_a_round() -> None:
    """A fetch whose offset confirms the first may have been sent before the second."""
    reads = ReadRounds()
    reads.add("a", 5, 9)
    reads.add("b", 5, 10)
    assert reads.round_confirmed_by(10) == 1
    assert reads.round_confirmed_by(11) == reads.current == 2
    assert reads.confirm(1, 5) == [ReadReady("a", 5)]


def test_record_is_needed_until_one_is_appended_after_the_newest_read() -> None:
    reads = ReadRounds()
    assert not reads.needs_record(9)
    reads.add("a", 5, 9)
    assert reads.needs_record(9)
    assert not reads.needs_record(10)
