from __future__ import annotations

from quorumd.raft.effects import ReadReady
from quorumd.raft.reads import ReadRounds


def test_a_read_is_confirmed_by_its_own_round_and_by_later_ones() -> None:
    reads = ReadRounds()
    reads.ask("a", 5)
    assert reads.current == 1
    assert reads.confirm(0, 5) == []
    assert reads.confirm(1, 9) == [ReadReady("a", 5)]
    assert reads.confirm(2, 9) == []


def test_reads_share_a_round_until_an_answer_carried_it() -> None:
    reads = ReadRounds()
    reads.ask("a", 5)
    reads.ask("b", 6)
    assert reads.carry() == 1
    reads.ask("c", 7)
    assert reads.carry() == 2
    assert reads.confirm(1, 8) == [ReadReady("a", 5), ReadReady("b", 6)]
    assert reads.confirm(2, 8) == [ReadReady("c", 7)]


def test_without_high_watermark_nothing_is_ready() -> None:
    reads = ReadRounds()
    reads.ask("a", -1)
    assert reads.confirm(1, -1) == []
    assert reads.confirm(1, 4) == [ReadReady("a", 4)]


def test_a_replica_behind_the_newest_awaited_round_is_told_at_once() -> None:
    reads = ReadRounds()
    assert not reads.is_awaited(0)
    reads.ask("a", 5)
    assert reads.is_awaited(0)
    assert not reads.is_awaited(1)


def test_abandoned_reads_are_handed_back_once() -> None:
    reads = ReadRounds()
    reads.ask("a", 5)
    assert reads.abandon() == ["a"]
    assert reads.abandon() == []
