"""The throttle time in encoded responses; most messages begin with it (KIP-124)."""

from __future__ import annotations

from functools import cache
from struct import Struct

from quorumd.protocol.apis import response_class, response_header_version
from quorumd.protocol.codec import encode

_TIME = Struct(">i")
_MARK = 0x5A5A_5A5A
_CORRELATION_ID_BYTES = 4
_NO_TAGS = 0


def read_throttle_ms(api_key: int, version: int, response: bytes) -> int | None:
    """Read the throttle time of an encoded response with its header; None if the message does not begin with one."""
    position = _position(api_key, version, response)
    if position is None:
        return None
    (throttle_ms,) = _TIME.unpack_from(response, position)
    return int(throttle_ms)


def write_throttle_ms(api_key: int, version: int, response: bytes, throttle_ms: int) -> bytes:
    """Return an encoded response with another throttle time; unchanged if the message does not begin with one."""
    position = _position(api_key, version, response)
    if position is None:
        return response
    return response[:position] + _TIME.pack(throttle_ms) + response[position + _TIME.size :]


def _position(api_key: int, version: int, response: bytes) -> int | None:
    if not _begins_with_throttle_time(api_key, version):
        return None
    position = _CORRELATION_ID_BYTES
    if response_header_version(api_key, version) == 1:
        if response[position : position + 1] != bytes([_NO_TAGS]):
            return None
        position += 1
    return position if len(response) >= position + _TIME.size else None


@cache
def _begins_with_throttle_time(api_key: int, version: int) -> bool:
    """Whether this version of the response begins with its throttle time, found out by encoding one."""
    message = response_class(api_key)()
    if not hasattr(message, "throttle_time_ms"):
        return False
    setattr(message, "throttle_time_ms", _MARK)  # noqa: B010 - not every response declares it
    return encode(message, version).startswith(_TIME.pack(_MARK))
