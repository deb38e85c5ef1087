"""Frames out of a stream that is split anywhere."""

from __future__ import annotations

import tracemalloc

import pytest

from quorumd.errors import MalformedMessage
from quorumd.protocol.framing import FrameReader

FRAMES = [b"first", b"", b"x" * 300, b"\0\0\0\1"]
STREAM = b"".join(len(frame).to_bytes(4, "big") + frame for frame in FRAMES)


def test_all_frames_of_one_piece() -> None:
    reader = FrameReader(1000)
    assert reader.feed(STREAM) == FRAMES
    assert reader.buffered_bytes == 0


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_split_at_every_byte(cut: int) -> None:
    reader = FrameReader(1000)
    assert reader.feed(STREAM[:cut]) + reader.feed(STREAM[cut:]) == FRAMES


@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_small_pieces(step: int) -> None:
    reader = FrameReader(1000)
    found = []
    for at in range(0, len(STREAM), step):
        found += reader.feed(STREAM[at : at + step])
    assert found == FRAMES


def test_frames_are_bytes_of_their_own() -> None:
    (frame,) = FrameReader(1000).feed(b"\0\0\0\2ab")
    assert type(frame) is bytes


def test_frame_as_large_as_allowed_and_one_byte_more() -> None:
    assert FrameReader(5).feed(b"\0\0\0\5hello") == [b"hello"]
    with pytest.raises(MalformedMessage, match=r"size 6 .*0 and 5 \(socket\.request\.max\.bytes\)"):
        FrameReader(5).feed(b"\0\0\0\6")


def test_oversized_frame_is_rejected_by_its_size_field() -> None:
    reader = FrameReader(100, "some.limit")
    reader.feed(b"\0\0")
    with pytest.raises(MalformedMessage, match=r"size 256 .*0 and 100 \(some\.limit\)"):
        reader.feed(b"\1\0\0")
    assert reader.buffered_bytes == 0


def test_frames_before_a_refused_size_are_returned_first() -> None:
    reader = FrameReader(100)
    assert reader.feed(b"\0\0\0\2ab\0\0\0\1c\xff\xff\xff\xffmore") == [b"ab", b"c"]
    assert reader.fault is not None
    with pytest.raises(MalformedMessage, match="frame size -1"):
        reader.feed(b"")


def test_negative_size_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="frame size -1"):
        FrameReader(100).feed(b"\xff\xff\xff\xff")


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n", b"POST /x", b"HTTP/1.1 200", b"PRI * HTTP/2.0"])
def test_http_is_recognised(first: bytes) -> None:
    with pytest.raises(MalformedMessage, match="an HTTP message"):
        FrameReader(1 << 20).feed(first)


def test_tls_is_recognised() -> None:
    with pytest.raises(MalformedMessage, match="TLS"):
        FrameReader(1 << 20).feed(b"\x16\x03\x01\x02\x00\x01\x00")


def test_large_frame_is_not_copied_per_chunk() -> None:
    """20 MB in chunks of 4 KiB: a copy of the buffer per chunk would take minutes."""
    size = 20_000_000
    reader = FrameReader(size)
    assert reader.feed(size.to_bytes(4, "big")) == []
    piece = bytes(4096)
    for _ in range(size // 4096):
        assert reader.feed(piece) == []
    found = reader.feed(bytes(size % 4096))
    assert [len(frame) for frame in found] == [size]


def test_frames_beyond_the_limit_are_returned_by_the_next_call() -> None:
    reader = FrameReader(100)
    data = b"".join(bytes((0, 0, 0, 1, number)) for number in range(5))
    assert reader.feed(data + b"\0\0", 2) == [b"\0", b"\1"]
    assert reader.has_more
    assert reader.feed(b"", 0) == []
    assert reader.has_more
    assert reader.feed(b"", 3) == [b"\2", b"\3", b"\4"]
    assert reader.feed(b"\0\1", 3) == []
    assert not reader.has_more
    assert reader.feed(b"\5") == [b"\5"]


def test_large_frame_with_others_behind_it() -> None:
    reader = FrameReader(1 << 20)
    large = bytes(range(256)) * 1000
    stream = len(large).to_bytes(4) + large + b"\0\0\0\2ab" + b"\0\0\0\3cd"
    assert reader.feed(stream[:1000]) == []
    assert reader.feed(stream[1000:200_000]) == []
    assert reader.feed(stream[200_000:], 1) == [large]
    assert reader.has_more
    assert reader.feed(b"", 0) == []
    assert reader.feed(b"") == [b"ab"]
    assert reader.feed(b"e") == [b"cde"]


def test_large_frame_that_waits_for_its_turn_is_not_copied() -> None:
    reader = FrameReader(1 << 23)
    frame = bytes(1 << 22)
    assert reader.feed(len(frame).to_bytes(4) + frame[:-1]) == []
    assert reader.feed(b"\0", 0) == []
    tracemalloc.start()
    try:
        for _ in range(2):
            assert reader.feed(b"", 0) == []
            assert reader.has_more
            assert reader.buffered_bytes == len(frame) + 4
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert reader.feed(b"", 1) == [frame]
    assert reader.buffered_bytes == 0
