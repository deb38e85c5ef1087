"""Metadata's topics in bytes, a slice at a time: some topics, or some partitions of a large one.

A million partitions take more than a second to encode, in which nobody else would be heard, and as objects several
times the room of their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from quorumd.protocol.codec import encode
from quorumd.protocol.connection import Request, encode_response
from quorumd.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
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
        self._header_bytes = (
            len(encode(MetadataResponse(), version))
            - len(_array_length(0, version))
            - _trailer_bytes(version)
        )
        """Bytes of an answer without brokers and names before its topics are counted."""
        self._head = MetadataResponseTopic()
        """The topic that was begun, without its partitions."""
        self._topic_header_bytes = 0
        """Bytes of an answer with that topic alone before its partitions are counted."""
        self._tail = b""
        """What comes behind its partitions."""
        self._partitions_left = 0

    def __len__(self) -> int:
        return self._count

    def add(self, topics: Sequence[MetadataResponseTopic]) -> None:
        """Encode the next ones. Raises as `codec.encode`."""
        whole = encode(MetadataResponse(topics=list(topics)), self._version)
        begin = self._header_bytes + len(_array_length(len(topics), self._version))
        self._slices.append(whole[begin : len(whole) - _trailer_bytes(self._version)])
        self._count += len(topics)

    def begin_topic(self, head: MetadataResponseTopic, partitions: int) -> None:
        """Encode the next one without its partitions, of which `add_partitions` is to add so many."""
        version, none = self._version, len(_array_length(0, self._version))
        whole = encode(MetadataResponse(topics=[head]), version)
        begin, end = self._header_bytes + len(_array_length(1, version)), len(whole) - _trailer_bytes(version)
        tail = end - _partition_trailer_bytes(version)
        self._slices += (whole[begin : tail - none], _array_length(partitions, version))
        self._tail = whole[tail:end]
        self._partitions_left = partitions
        self._count += 1
        self._topic_header_bytes = tail - none
        self._head = head

    def add_partitions(self, partitions: list[MetadataResponsePartition]) -> None:
        """Encode the next ones of the topic that was begun."""
        version, head = self._version, self._head
        topic = MetadataResponseTopic(head.error_code, head.name, head.topic_id, head.is_internal, partitions)
        whole = encode(MetadataResponse(topics=[topic]), version)
        begin = self._topic_header_bytes + len(_array_length(len(partitions), version))
        self._slices.append(
            whole[begin : len(whole) - _trailer_bytes(version) - _partition_trailer_bytes(version)]
        )
        self._partitions_left -= len(partitions)
        if not self._partitions_left:
            self._slices.append(self._tail)

    def encode_response(self, request: Request[Message], envelope: Message) -> bytes:
        """The answer to a request of this version as `Session.respond_encoded` takes it: `around`, which has no
        topics, with these. Raises as `codec.encode`."""
        encoded = encode_response(request, envelope)
        end = len(encoded) - _trailer_bytes(self._version)
        begin = end - len(_array_length(0, self._version))
        count = _array_length(self._count, self._version)
        return b"".join((encoded[:begin], count, *self._slices, encoded[end:]))


def _array_length(topics: int, version: int) -> bytes:
    """The length of the array."""
    if version < _FLEXIBLE_SINCE:
        return _INT32.pack(topics)
    out = bytearray()
    write_uvarint(out, topics + 1)
    return bytes(out)


def _trailer_bytes(version: int) -> int:
    """Bytes of the answer behind its topics: authorized operations (8 to 10), an error (13), and no tagged fields."""
    return (4 if 8 <= version <= 10 else 0) + (2 if version >= 13 else 0) + (version >= _FLEXIBLE_SINCE)


def _partition_trailer_bytes(version: int) -> int:
    """Bytes of a topic behind its partitions: authorized operations (since 8), and no tagged fields."""
    return (4 if version >= 8 else 0) + (version >= _FLEXIBLE_SINCE)
