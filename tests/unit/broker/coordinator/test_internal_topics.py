"""Internal topics: the partition of a key, and their creation."""

from __future__ import annotations

import pytest

from quorumd.broker.coordinator.internal_topics import java_hash, partition_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("Aa", 2112),
        ("\U0001f600", 1772899),
    ],
)
def test_hash_is_that_of_java(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_partition_of_the_least_hash_is_the_first() -> None:
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("hello", 50) == 22
