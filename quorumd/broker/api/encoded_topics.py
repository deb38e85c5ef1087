"""Incremental encoding of Metadata topics: some topics, or some partitions of a large topic, per slice.

A million partitions take more than a second to encode, which would block the event loop, and need several times more
memory as objects than as bytes.
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
    """Encoded topics in order, for one version of Metadata."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._slices: list[bytes] = []
        self._count = 0
        self._header_bytes = (
            len(encode(MetadataResponse(), version))
            - len(_array_length(0, version))
            - _trailer_bytes(version)
        )
        """Bytes before the topic count in a response without brokers and names."""
        self._head = MetadataResponseTopic()
        """The current topic without its partitions."""
        self._topic_header_bytes = 0
        """Bytes before the partition count in a response with that topic alone."""
        self._tail = b""
        """The bytes behind its partitions."""
        self._partitions_left = 0

    def __len__(self) -> int:
        return self._count

    def add(self, topics: Sequence[MetadataResponseTopic]) -> None:
        """Encode more topics. Raises as `codec.encode`."""
        whole = encode(MetadataResponse(topics=list(topics)), self._version)
        begin = self._header_bytes + len(_array_length(len(topics), self._version))
        self._slices.append(whole[begin : len(whole) - _trailer_bytes(self._version)])
        self._count += len(topics)

    def begin_topic(self, head: MetadataResponseTopic, partitions: int) -> None:
        """Encode a topic without its partitions; `add_partitions` adds `partitions` of them."""
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
        """Encode more partitions of the current topic."""
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
        """The encoded response for `Session.respond_encoded`: `envelope`, which has no topics, with these topics.
        Raises as `codec.encode`."""
        encoded = encode_response(request, envelope)
        end = len(encoded) - _trailer_bytes(self._version)
        begin = end - len(_array_length(0, self._version))
        count = _array_length(self._count, self._version)
        return b"".join((encoded[:begin], count, *self._slices, encoded[end:]))


def _array_length(topics: int, version: int) -> bytes:
    """The encoded array length."""
    if version < _FLEXIBLE_SINCE:
        return _INT32.pack(topics)
    out = bytearray()
    write_uvarint(out, topics + 1)
    return bytes(out)


def _trailer_bytes(version: int) -> int:
    """Bytes of the response after its topics: authorized operations (8 to 10), an error (13), no tagged fields."""
    return (4 if 8 <= version <= 10 else 0) + (2 if version >= 13 else 0) + (version >= _FLEXIBLE_SINCE)


def _partition_trailer_bytes(version: int) -> int:
    """Bytes of a topic behind its partitions: authorized operations (since 8), and no tagged fields."""
    return (4 if version >= 8 else 0) + (version >= _FLEXIBLE_SINCE)
