"""Rates over windows and token buckets, by Kafka's formulas."""

from __future__ import annotations

import pytest

from quorumd.quotas.rates import TokenBucket, WindowedRate


def test_rate_counts_missing_windows() -> None:
    rate = WindowedRate(11, 1000)
    assert rate.throttle_ms(1, 0) == 0
    rate.record(1000, 0)
    assert rate.rate(0) == pytest.approx(100), "at least the 10 full windows"
    assert rate.rate(500) == pytest.approx(1000 / 10.5), "and the part of the present one"
    assert rate.rate(10_500) == pytest.approx(1000 / 10.5)


def test_windows_expire() -> None:
    rate = WindowedRate(3, 1000)
    rate.record(300, 0)
    rate.record(300, 1500)
    assert rate.rate(2900) == pytest.approx(600 / 2.9)
    assert rate.rate(3000) == pytest.approx(300 / 2.5), (
        "the first window was used for the last time 3 windows ago"
    )
    assert rate.rate(4500) == 0


def test_busy_client_keeps_one_window_more_than_counted() -> None:
    rate = WindowedRate(3, 1000)
    for now_ms in range(0, 9500, 500):
        rate.record(50, now_ms)
    assert rate.rate(9400) == pytest.approx(350 / 3.4)


@pytest.mark.parametrize("limit", [99.0, 50.0, 1.0])
def test_throttle_time_brings_the_rate_within_the_limit(limit: float) -> None:
    rate = WindowedRate(11, 1000)
    rate.record(1000, 0)
    assert rate.throttle_ms(100, 0) == 0
    assert rate.throttle_ms(limit, 0) == round((100 - limit) / limit * 10_000)


def test_negative_usage_is_subtracted() -> None:
    rate = WindowedRate(11, 1000)
    rate.record(1000, 0)
    rate.record(-1000, 1)
    assert rate.rate(1) == 0


def test_bucket_is_full_first_and_refilled() -> None:
    bucket = TokenBucket(burst_s=11)
    assert bucket.tokens(2, 0) == 22
    bucket.take(30, 2, 0)
    assert bucket.throttle_ms(2, 0) == 4000
    assert bucket.throttle_ms(2, 3000) == 1000
    assert bucket.throttle_ms(2, 4000) == 0
    assert bucket.tokens(2, 1e9) == 22
    assert bucket.tokens(1, 1e9) == 11, "a smaller quota has a smaller burst"
