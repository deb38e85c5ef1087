"""Steps from batch to batch, against the real header parser."""

from __future__ import annotations

import pytest

from quorumd.errors import CorruptLog
from quorumd.log.batch_extents import EXTENT_SIZE, extent, find_batch, locate_batch, whole_batches
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.record_batch import encode_batch

SIZES = (3, 50, 1, 20)
COUNTS = (1, 3, 2, 1)
NO_BOUND = 2**62


@pytest.fixture
def data() -> bytes:
    """Four batches from offset 100: 100, 101..103, 104..105, 106."""
    parts = []
    offset = 100
    for size, count in zip(SIZES, COUNTS, strict=True):
        parts.append(encode_batch(offset, 1, 5, [b"v" * size] * count))
        offset += count
    return b"".join(parts)


def test_extent_equals_that_of_the_header(data: bytes) -> None:
    for header in headers(data):
        assert extent(data[: header.position + EXTENT_SIZE], header.position) == (
            header.base_offset,
            header.end_offset,
            header.size,
        )


def test_extent_rejects_invalid_headers(data: bytes) -> None:
    for damaged in (
        bytes(EXTENT_SIZE),
        b"\x80" + data[1:],
        data[:8] + b"\xff" + data[9:],
        data[:23] + b"\xff" * 4,
    ):
        with pytest.raises(CorruptLog, match="invalid batch header"):
            extent(damaged, 0)


def test_find_batch_finds_the_one_that_contains_the_offset(data: bytes) -> None:
    for header in headers(data):
        for offset in range(header.base_offset, header.end_offset):
            assert find_batch(data, offset) == header.position
    assert find_batch(data, 107) == len(data)


def test_find_batch_returns_resume_position(data: bytes) -> None:
    second = list(headers(data))[1]
    assert find_batch(data[: second.position + EXTENT_SIZE - 1], 105) == second.position
    assert find_batch(data[: second.position + EXTENT_SIZE], 105) == second.position + second.size


def test_whole_batches_against_a_list(data: bytes) -> None:
    found = list(headers(data))
    for index, first in enumerate(found):
        for limit in range(len(data) + 2):
            for max_offset in (*range(99, 109), NO_BOUND):
                expected = (first.position, 0)
                for header in found[index:]:
                    end = header.position + header.size
                    if header.end_offset > max_offset or (
                        header is not first and end - first.position > limit
                    ):
                        break
                    expected = (end, header.end_offset)
                assert whole_batches(data, first.position, limit, max_offset) == expected


def test_whole_batches_stops_before_a_batch_that_is_cut_off(data: bytes) -> None:
    second = list(headers(data))[1]
    for missing in range(1, second.size):
        cut_off = data[: second.position + second.size - missing]
        assert whole_batches(cut_off, 0, NO_BOUND, NO_BOUND) == (second.position, second.base_offset)


class ShortFile:
    """A file that has lost its end. It refuses to be read again and again."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.reads = 0

    def read_at(self, position: int, length: int) -> bytes:
        self.reads += 1
        assert self.reads < 10
        return self._content[position : position + length]


@pytest.mark.parametrize("kept", [0, 5, EXTENT_SIZE, 100])
def test_search_ends_where_a_file_has_become_shorter(data: bytes, kept: int) -> None:
    assert locate_batch(ShortFile(data), 0, len(data), 106) is not None
    assert locate_batch(ShortFile(data[:kept]), 0, len(data), 106) is None
