"""KIP-580: exponential, jittered, bounded."""

from __future__ import annotations

import pytest

from quorumd.client.backoff import backoff_ms


@pytest.mark.parametrize(
    ("attempt", "wait"), [(0, 100), (1, 200), (2, 400), (3, 800), (4, 1000), (5000, 1000)]
)
def test_backoff_doubles_up_to_maximum(attempt: int, wait: float) -> None:
    assert backoff_ms(attempt, 100, 1000, 0.5) == pytest.approx(wait)


def test_jitter_is_twenty_percent() -> None:
    assert backoff_ms(1, 100, 1000, 0.0) == pytest.approx(160)
    assert backoff_ms(1, 100, 1000, 0.999999) == pytest.approx(240, abs=0.001)


def test_jitter_never_exceeds_maximum() -> None:
    assert backoff_ms(9, 100, 1000, 0.999) == 1000
