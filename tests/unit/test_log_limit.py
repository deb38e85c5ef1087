"""Which of many equal log lines are written."""

from __future__ import annotations

from quorumd.log_limit import INTERVAL_MS, LogLimit


def test_one_line_per_interval_and_kind_has_the_count_of_those_between() -> None:
    now_ms = [5.0]
    limit = LogLimit(lambda: now_ms[0])
    assert [limit.admit("a"), limit.admit("b"), limit.admit("a"), limit.admit("a")] == [0, 0, None, None]
    now_ms[0] += INTERVAL_MS - 1
    assert limit.admit("a") is None
    now_ms[0] += 1
    assert [limit.admit("a"), limit.admit("a"), limit.admit("b")] == [3, None, 0]


def test_further_kinds_share_a_line_until_earlier_ones_are_forgotten() -> None:
    now_ms = [0.0]
    limit = LogLimit(lambda: now_ms[0], max_kinds=2)
    assert [limit.admit(kind) for kind in ("a", "b", "c", "d", "e", "a")] == [0, 0, 0, None, None, None]
    now_ms[0] += INTERVAL_MS
    assert [limit.admit(kind) for kind in ("c", "d", "e")] == [0, 0, 0]


def test_kinds_do_not_accumulate() -> None:
    now_ms = [0.0]
    limit = LogLimit(lambda: now_ms[0], max_kinds=2)
    for number in range(100):
        assert limit.admit(number) == 0
        now_ms[0] += INTERVAL_MS
    assert limit.kinds <= 3
