"""The throttle time of responses that are encoded already."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.protocol.apis import APIS, ApiKey, response_class
from quorumd.protocol.connection import Request, encode_response
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.throttle_time import read_throttle_ms, write_throttle_ms

ELSEWHERE = {
    ApiKey.API_VERSIONS,
    ApiKey.OFFSET_DELETE,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.PRODUCE,
}
"""APIs whose responses have a throttle time that is not their first field."""


@pytest.mark.parametrize(
    "key", sorted(key for key in APIS if hasattr(response_class(key)(), "throttle_time_ms"))
)
def test_throttle_time_is_read_and_replaced(key: int) -> None:
    for version in range(APIS[key].min_version, APIS[key].max_version + 1):
        request = Request(key, version, 7, None, MetadataRequest(), b"", 0)
        message: Any = response_class(key)()
        message.throttle_time_ms = 12_345
        response = encode_response(request, message)
        found = read_throttle_ms(key, version, response)
        if found is None:
            assert key in ELSEWHERE or message.throttle_time_ms.to_bytes(4, "big") not in response
            assert write_throttle_ms(key, version, response, 1) == response
            continue
        assert found == 12_345
        message.throttle_time_ms = 1
        assert write_throttle_ms(key, version, response, 1) == encode_response(request, message)


def test_short_or_unusual_responses_are_left_alone() -> None:
    assert read_throttle_ms(ApiKey.METADATA, 12, bytes(4)) is None
    assert read_throttle_ms(ApiKey.METADATA, 12, b"\0\0\0\7\1\0\0" + bytes(40)) is None, "with tagged fields"
    assert read_throttle_ms(ApiKey.SASL_HANDSHAKE, 1, bytes(40)) is None
