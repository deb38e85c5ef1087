"""Initial offsets of share groups, as Kafka reads them."""

from __future__ import annotations

import pytest

from quorumd.controller.config_values import is_offset_reset


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("earliest", True),
        ("latest", True),
        ("by_duration:PT0.5S", True),
        ("by_duration:PT-0.5S", False),
        ("by_duration:-PT-0.5S", True),
        ("by_duration:PT1M-60S", True),
        ("by_duration:PT1M-60.5S", False),
        ("by_duration:", False),
        ("PT1M", False),
        ("none", False),
    ],
)
def test_duration_is_not_negative(text: str, is_valid: bool) -> None:
    assert is_offset_reset(text) is is_valid
