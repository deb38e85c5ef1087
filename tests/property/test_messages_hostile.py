"""Hostile bytes: every prefix and every changed byte of a valid message gives a value or MalformedMessage."""

from __future__ import annotations

import contextlib
import random
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from quorumd.errors import MalformedMessage
from quorumd.protocol.codec import decode, decode_prefix, encode
from tests.support.protocol.message_strategies import all_versions, message_class, message_values

MEMORY_PER_BYTE = 400
"""The largest factor is an element without fields in a flexible version: one byte becomes a slotted object."""


@pytest.mark.parametrize(("name", "version"), all_versions())
@given(data=st.data())
@settings(
    max_examples=4,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
def test_value_or_malformed(name: str, version: int, data: st.DataObject) -> None:
    decoded = message_class(name)
    encoded = encode(data.draw(message_values(name, version)), version)[:1000]
    dice = random.Random(len(encoded))
    for length in range(len(encoded)):
        with pytest.raises(MalformedMessage):
            decode(decoded, version, encoded[:length])
    for position, byte in enumerate(encoded):
        for other in {0, 1, 0x7F, 0x80, 0xFF, byte ^ 1 << dice.randrange(8)}:
            with contextlib.suppress(MalformedMessage):
                decode_prefix(decoded, version, encoded[:position] + bytes([other]) + encoded[position + 1 :])


@pytest.fixture(scope="module")
def traced() -> Iterator[None]:
    """Trace allocations once: stopping while another thread allocates ends CPython 3.11 with a segmentation fault."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(("name", "version"), all_versions())
def test_noise_takes_no_more_memory_than_its_size_allows(name: str, version: int) -> None:
    dice = random.Random(f"{name} {version}")
    noises = [b"\xff" * 64, b"\x7f" * 4096, b"\x02" * 512, *(dice.randbytes(256) for _ in range(20))]
    decoded = message_class(name)
    with contextlib.suppress(MalformedMessage):
        decode_prefix(decoded, version, noises[0])  # what is made once is made now
    for noise in noises:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        with contextlib.suppress(MalformedMessage):
            decode_prefix(decoded, version, noise)
        peak = tracemalloc.get_traced_memory()[1] - before
        assert peak < 20_000 + MEMORY_PER_BYTE * len(noise)
