"""Metadata's topics in bytes, a slice at a time.

A million partitions take more than a second to encode, in which nobody else would be heard, and as objects several
times the room of their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from quorumd.protocol.codec import encode
from quorumd.protocol.connection import Request, encode_answer
from quorumd.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from quorumd.protocol.primitives import write_uvarint
from quorumd.protocol.wire import Message

_FLEXIBLE_SINCE = 9
_INT32 = Struct(">i")


class EncodedTopics:
    """Topics in their order, as answers of one version of Metadata hold them."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._slices: list[bytes] = []
        self._count = 0
        self._before = len(encode(MetadataResponse(), version)) - len(_counted(0, version)) - _behind(version)
        """Bytes of an answer without brokers and names before its topics are counted."""

    def __len__(self) -> int:
        return self._count

    def add(self, topics: Sequence[MetadataResponseTopic]) -> None:
        """Encode the next ones. Raises as `codec.encode`."""
        whole = encode(MetadataResponse(topics=list(topics)), self._version)
        begin = self._before + len(_counted(len(topics), self._version))
        self._slices.append(whole[begin : len(whole) - _behind(self._version)])
        self._count += len(topics)

    def answer(self, request: Request, around: Message) -> bytes:
        """The answer to a request of this version as `Session.answer_encoded` takes it: `around`, which has no
        topics, with these. Raises as `codec.encode`."""
        encoded = encode_answer(request, around)
        end = len(encoded) - _behind(self._version)
        begin = end - len(_counted(0, self._version))
        counted = _counted(self._count, self._version)
        return b"".join((encoded[:begin], counted, *self._slices, encoded[end:]))


def _counted(topics: int, version: int) -> bytes:
    """The length of the array."""
    if version < _FLEXIBLE_SINCE:
        return _INT32.pack(topics)
    out = bytearray()
    write_uvarint(out, topics + 1)
    return bytes(out)


def _behind(version: int) -> int:
    """Bytes of the answer behind its topics: authorized operations (8 to 10), an error (13), and no tagged fields."""
    return (4 if 8 <= version <= 10 else 0) + (2 if version >= 13 else 0) + (version >= _FLEXIBLE_SINCE)
