"""Encodes the topics of Metadata incrementally: some topics, or some partitions of a large topic, per slice.

A million partitions take more than a second to encode, which would block the event loop, and need several times more
memory as objects than as bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.protocol.codec import encode
from quorumd.protocol.connection import Request, encode_response
from quorumd.protocol.encoded_items import array_length
from quorumd.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from quorumd.protocol.wire import Message

_FLEXIBLE_SINCE = 9


class EncodedTopics:
    """Encoded topics, in order, for one version of Metadata."""

    def __init__(self, version: int) -> None:
        self.version = version
        self._slices: list[bytes] = []
        self._count = 0
        self._header_bytes = _header_bytes(version)
        self._tail = b""
        """The bytes that follow the partitions of the current topic."""
        self._partitions_left = 0

    def __len__(self) -> int:
        return self._count

    def add(self, topics: Sequence[MetadataResponseTopic]) -> None:
        """Encode more topics. Raises the errors of `codec.encode`."""
        whole = encode(MetadataResponse(topics=list(topics)), self.version)
        begin = self._header_bytes + len(_array_length(len(topics), self.version))
        self._slices.append(whole[begin : len(whole) - _trailer_bytes(self.version)])
        self._count += len(topics)

    def begin_topic(self, head: MetadataResponseTopic, partitions: int) -> None:
        """Encode a topic without its partitions; `add_partitions` then adds them, `partitions` in all."""
        version, none = self.version, len(_array_length(0, self.version))
        whole = encode(MetadataResponse(topics=[head]), version)
        begin, end = self._header_bytes + len(_array_length(1, version)), len(whole) - _trailer_bytes(version)
        tail = end - _partition_trailer_bytes(version)
        self._slices += (whole[begin : tail - none], _array_length(partitions, version))
        self._tail = whole[tail:end]
        self._partitions_left = partitions
        self._count += 1

    def add_partitions(self, encoded: bytes, count: int) -> None:
        """Add the next `count` partitions of the current topic, as `encode_partitions` returns them."""
        self._slices.append(encoded)
        self._partitions_left -= count
        if not self._partitions_left:
            self._slices.append(self._tail)

    @property
    def size(self) -> int:
        """The number of encoded bytes so far."""
        return sum(map(len, self._slices))

    def encode_response(self, request: Request[Message], envelope: Message) -> bytes:
        """Return the response for `Session.respond_encoded`: these topics in `envelope`, a response without topics.

        Raises the errors of `codec.encode`.
        """
        encoded = encode_response(request, envelope)
        end = len(encoded) - _trailer_bytes(self.version)
        begin = end - len(_array_length(0, self.version))
        count = _array_length(self._count, self.version)
        return b"".join((encoded[:begin], count, *self._slices, encoded[end:]))


def encode_partitions(partitions: list[MetadataResponsePartition], version: int) -> bytes:
    """Encode partitions of a topic without their count. Raises the errors of `codec.encode`."""
    head = encode(MetadataResponse(topics=[MetadataResponseTopic()]), version)
    whole = encode(MetadataResponse(topics=[MetadataResponseTopic(partitions=partitions)]), version)
    tail = _trailer_bytes(version) + _partition_trailer_bytes(version)
    begin = len(head) - tail - len(_array_length(0, version)) + len(_array_length(len(partitions), version))
    return whole[begin : len(whole) - tail]


def _header_bytes(version: int) -> int:
    """Bytes before the topic count in a response without brokers and names."""
    whole = len(encode(MetadataResponse(), version))
    return whole - len(_array_length(0, version)) - _trailer_bytes(version)


def _array_length(count: int, version: int) -> bytes:
    return array_length(count, version >= _FLEXIBLE_SINCE)


def _trailer_bytes(version: int) -> int:
    """Bytes of the response after its topics: authorized operations (8 to 10), an error (13), no tagged fields."""
    return (4 if 8 <= version <= 10 else 0) + (2 if version >= 13 else 0) + (version >= _FLEXIBLE_SINCE)


def _partition_trailer_bytes(version: int) -> int:
    """Bytes of a topic after its partitions: authorized operations (since 8), and no tagged fields."""
    return (4 if version >= 8 else 0) + (version >= _FLEXIBLE_SINCE)
