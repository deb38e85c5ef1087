"""Encodes a response whose last field is a long list piece by piece: objects take several times the memory."""

from __future__ import annotations

from copy import copy
from struct import Struct

from quorumd.protocol.connection import Request, encode_response
from quorumd.protocol.primitives import write_uvarint
from quorumd.protocol.wire import Message

_INT32 = Struct(">i")


def array_length(count: int, is_flexible: bool) -> bytes:
    """Encode the length of an array."""
    if not is_flexible:
        return _INT32.pack(count)
    out = bytearray()
    write_uvarint(out, count + 1)
    return bytes(out)


class EncodedItems:
    """The items of a response to `request`, of its last field `name`, encoded in order."""

    def __init__(self, request: Request[Message], name: str) -> None:
        self._request = request
        self._name = name
        self._pieces: list[bytes] = []
        self._count = 0
        self._before = self._after = b""
        """The bytes around the list, from the last response that was added."""

    def add(self, response: Message) -> None:
        """Encode the items of a response. Its other fields are those of the whole response. Raises the errors of
        `codec.encode`."""
        request, count = self._request, len(getattr(response, self._name))
        flexible_from = response.FLEXIBLE_FROM
        is_flexible = flexible_from is not None and request.api_version >= flexible_from
        empty = copy(response)
        setattr(empty, self._name, [])
        frame, whole = encode_response(request, empty), encode_response(request, response)
        # In flexible versions a message ends with its tagged fields, of which there are none.
        after = len(frame) - is_flexible
        before = after - len(array_length(0, is_flexible))
        self._before, self._after = frame[:before], frame[after:]
        self._pieces.append(
            whole[before + len(array_length(count, is_flexible)) : len(whole) - len(self._after)]
        )
        self._count += count

    def take_response(self) -> bytes:
        """Return the whole response for `Session.respond_encoded`, and forget the items."""
        count = array_length(self._count, bool(self._after))
        pieces, self._pieces = self._pieces, []
        return b"".join((self._before, count, *pieces, self._after))
