"""Any message of any version round-trips through its bytes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorumd.protocol.codec import decode, decode_prefix, encode
from tests.support.protocol.message_strategies import all_versions, message_class, message_values


@pytest.mark.parametrize(("name", "version"), all_versions())
@given(data=st.data())
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
def test_round_trip(name: str, version: int, data: st.DataObject) -> None:
    message = data.draw(message_values(name, version))
    encoded = encode(message, version)
    assert decode(message_class(name), version, encoded) == message
    assert encode(decode(message_class(name), version, encoded), version) == encoded
    decoded, end, _ = decode_prefix(message_class(name), version, b"\xff" + encoded + b"\x00", 1)
    assert (decoded, end) == (message, len(encoded) + 1)
