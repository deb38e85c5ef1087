"""Bytes of the network: frames, requests and responses, messages of every version, batches and records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from struct import Struct
from zlib import crc32

from crc32c import crc32c

from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import MalformedMessage, UnsupportedVersion
from quorumd.node.wire.voter_records import voter_records
from quorumd.protocol import batch_scan, record_batch
from quorumd.protocol.apis import APIS, request_class, request_header_version, response_header_version
from quorumd.protocol.batch_header import HEADER_SIZE, BatchHeader, crc_is_valid
from quorumd.protocol.batch_scan import Gapless
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.connection import ClientConnection, ServerConnection
from quorumd.protocol.control_record import decode_control, encode_control
from quorumd.protocol.coordinator_record import (
    GROUP,
    TRANSACTION,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from quorumd.protocol.framing import FrameReader
from quorumd.protocol.messages import COORDINATOR_RECORDS, RECORDS
from quorumd.protocol.metadata_record import decode_record, encode_record
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from quorumd.protocol.wire import Message
from tests.fuzz.messages import messages_of_all_versions, sample
from tests.fuzz.target import Parse, Target
from tests.support.protocol.message_strategies import message_class

MAX_FRAME = 2 << 20
CONTROL_MESSAGES = (
    "LeaderChangeMessage",
    "SnapshotHeaderRecord",
    "SnapshotFooterRecord",
    "KRaftVersionRecord",
    "VotersRecord",
)
_WHICH = Struct(">H")
_CORRELATION_IDS = (7, 8)
_ALL_APIS = {key: (api.min_version, api.max_version) for key, api in APIS.items()}
_API_VERSIONS = [
    (key, version) for key, api in APIS.items() for version in range(api.min_version, api.max_version + 1)
]


def framed(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return len(body).to_bytes(4, "big") + body


def pieces(data: bytes) -> Iterator[bytes]:
    """Split data at pseudo-random positions, which are the same for the same data."""
    dice = crc32(data)
    position = 0
    while position < len(data):
        dice = (dice * 1103515245 + 12345) & 0x7FFFFFFF
        size = (1, 2, 3, 4, 7, 61, 1000, 1 << 16)[dice >> 16 & 7]
        yield data[position : position + size]
        position += size


# ---- frames


def _frames_corpus() -> list[bytes]:
    return [
        b"",
        framed(b"a"),
        framed(bytes(20)) * 3,
        framed() + framed(b"xyz"),
        framed(b"\x01" * 5000) + framed(b"b")[:3],
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ]


def _feed_in_pieces(data: bytes) -> None:
    """Any split of the stream gives the same frames or the same error."""
    reader = FrameReader(MAX_FRAME)
    found: list[bytes] = []
    for piece in pieces(data):
        found += reader.feed(piece)
    assert found == FrameReader(MAX_FRAME).feed(data)
    assert reader.fault or sum(len(frame) + 4 for frame in found) + reader.buffered_bytes == len(data)


# ---- both ends of a connection


@cache
def request_frames() -> list[bytes]:
    """Return frames with one or two requests of every API and version."""
    found = []
    for key, version in _API_VERSIONS:
        tags = b"\x00" if request_header_version(key, version) == 2 else b""
        head = Struct(">hhih").pack(key, version, 7, 4) + b"fuzz" + tags
        for number in range(5):
            body = encode(sample(f"{APIS[key].name}Request", version, number), version)
            found.append(framed(head, body) * (1 + number % 2))
    return found


@cache
def _response_frames() -> list[bytes]:
    found = []
    for which, (key, version) in enumerate(_API_VERSIONS):
        tags = b"\x00" if response_header_version(key, version) == 1 else b""
        for number in range(5):
            body = encode(sample(f"{APIS[key].name}Response", version, number), version)
            responses = (framed(i.to_bytes(4, "big"), tags, body) for i in range(1 + number % 2))
            found.append(_WHICH.pack(which) + b"".join(responses))
    return found


def _receive_requests(data: bytes) -> None:
    connection = ServerConnection(MAX_FRAME, _ALL_APIS)
    for piece in pieces(data):
        for request in connection.receive(piece):
            repr(request)
    connection.take_output()


def _receive_responses(data: bytes) -> None:
    """Receive responses to two equal requests, whose API and version the first two bytes select."""
    which = _WHICH.unpack_from(data)[0] if len(data) >= 2 else 0
    key, version = _API_VERSIONS[which % len(_API_VERSIONS)]
    connection = ClientConnection("fuzz")
    for _ in range(2):
        connection.request(_default_request(key), version)
    for piece in pieces(data[2:]):
        for _, response in connection.receive(piece):
            repr(response)


@cache
def _default_request(key: int) -> Message:
    return request_class(key)()


# ---- messages


def _messages_corpus() -> list[bytes]:
    every = messages_of_all_versions()
    return [_WHICH.pack(which) + data for which, (_, _, found) in enumerate(every) for data in found]


def _make_decode() -> Parse:
    every = [(found, version) for found, version, _ in messages_of_all_versions()]

    def decode_and_encode(data: bytes) -> None:
        """A decoded message can be encoded and decoded again; the first two bytes select its type and version."""
        which = _WHICH.unpack_from(data)[0] if len(data) >= 2 else 0
        found, version = every[which % len(every)]
        again = encode(decode(found, version, data, 2), version)
        assert encode(decode(found, version, again), version) == again

    return decode_and_encode


# ---- batches and records


@cache
def batches() -> list[bytes]:
    """Return single data and control batches, and sequences of batches."""
    controls = [encode_control(sample(name, 0, number)) for name in CONTROL_MESSAGES for number in range(3)]  # type: ignore[arg-type]  # by name
    found = [
        encode_batch(0, 1, 1000, [b"value"]),
        encode_batch(0, 1, 1000, metadata_records()[:20]),
        encode_batch(0, 0, 0, [b""] * 70),
        encode_batch(0, 3, 5, [bytes(300)] * 3),
        encode_control_batch(0, 1, 1000, controls),
        *(encode_control_batch(0, 1, 1000, [control]) for control in controls),
    ]
    found.append(found[0] + encode_batch(1, 2, 7, [b"a", b"b"]) + encode_control_batch(3, 2, 7, controls[:1]))
    found.append(found[-1] + bytes(100))
    return found


@cache
def metadata_records() -> list[bytes]:
    every = {found.NAME: (found, version) for found, version, _ in messages_of_all_versions()}
    return [
        encode_record(sample(name, version, number), version)
        for name in RECORDS.values()
        for version in range(every[name][0].MIN_VERSION, every[name][0].MAX_VERSION + 1)
        for number in range(4)
    ]


def mend_batches(data: bytes) -> bytes:
    """Repair the lengths and CRCs of batches, so that mutated batches pass the checks."""
    mended = bytearray(data)
    position = 0
    while position + HEADER_SIZE <= len(mended):
        size = int.from_bytes(mended[position + 8 : position + 12], "big") + 12
        if not HEADER_SIZE <= size <= len(mended) - position:
            size = len(mended) - position
            mended[position + 8 : position + 12] = (size - 12).to_bytes(4, "big")
        crc = crc32c(bytes(mended[position + 21 : position + size]))
        mended[position + 17 : position + 21] = crc.to_bytes(4, "big")
        position += size
    return bytes(mended)


def _walk_batches(data: bytes) -> None:
    scanned = batch_scan.scan(data, Gapless())
    assert 0 <= scanned.end <= len(data)
    assert (
        scanned.fault
        or not any(data[scanned.end :])
        or len(data) - scanned.end < HEADER_SIZE
        or (not any(data[scanned.end : scanned.end + HEADER_SIZE]))
    )
    for header in scanned.headers:
        assert crc_is_valid(data, header)
        _walk_records(data, header)
    found = batch_scan.validate(data, Gapless())
    assert [header.position for header in found] == [header.position for header in scanned.headers]
    for header in batch_scan.headers(data):
        repr(header)


def _walk_records(data: bytes, header: BatchHeader) -> None:
    walks: tuple[Callable[[], list[object]], ...] = (
        lambda: list(record_batch.records(data, header)),
        lambda: list(record_batch.values(data, header)),
        lambda: list(voter_records(data, header)) if header.is_control else [],
    )
    for walk in walks:
        try:
            found = walk()
        except MalformedMessage:
            continue
        assert len(found) <= header.count


def _control_corpus() -> list[bytes]:
    every = (encode_control(sample(name, 0, number)) for name in CONTROL_MESSAGES for number in range(8))  # type: ignore[arg-type]  # by name
    return [key + value for key, value in every]


def _decode_control(data: bytes) -> None:
    message = decode_control(data[:4], data[4:])
    again = encode_control(message)
    assert encode_control(decode_control(*again)) == again


def _decode_and_apply(data: bytes) -> None:
    ClusterImage().apply(decode_record(data), [])


def _coordinator_corpus() -> list[bytes]:
    found = []
    for coordinator, names in COORDINATOR_RECORDS.items():
        for name in names.values():
            key = encode_key(sample(f"{name}Key", 0, 1))
            head = bytes([coordinator == TRANSACTION]) + _WHICH.pack(len(key)) + key
            values = message_class(f"{name}Value")
            versions = range(values.MIN_VERSION, values.MAX_VERSION + 1)
            found += [head + encode_value(sample(values.NAME, v, n), v) for v in versions for n in range(4)]
    return found


def _decode_coordinator_record(data: bytes) -> None:
    if len(data) < 1 + _WHICH.size:
        return
    coordinator = TRANSACTION if data[0] & 1 else GROUP
    end = 1 + _WHICH.size + int(_WHICH.unpack_from(data, 1)[0])
    key = decode_key(coordinator, data[1 + _WHICH.size : end])
    assert decode_key(coordinator, encode_key(key)) == key
    value = decode_value(coordinator, key, data[end:])
    assert value.RECORD_TYPE == key.RECORD_TYPE


TARGETS = (
    Target("frames", 8, _frames_corpus, lambda: _feed_in_pieces, (MalformedMessage,)),
    Target("server connection", 10, request_frames, lambda: _receive_requests, (MalformedMessage,)),
    Target("client connection", 10, _response_frames, lambda: _receive_responses, (MalformedMessage,)),
    Target("messages", 34, _messages_corpus, _make_decode, (MalformedMessage,)),
    Target("record batches", 12, batches, lambda: _walk_batches, (MalformedMessage,), mend=mend_batches),
    Target(
        "control records", 4, _control_corpus, lambda: _decode_control, (MalformedMessage, UnsupportedVersion)
    ),
    Target(
        "coordinator records",
        4,
        _coordinator_corpus,
        lambda: _decode_coordinator_record,
        (MalformedMessage, UnsupportedVersion),
    ),
    Target(
        "metadata records",
        8,
        metadata_records,
        lambda: _decode_and_apply,
        (MalformedMessage, UnsupportedVersion),
    ),
)
