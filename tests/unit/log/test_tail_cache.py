"""The cache of the last appends, against reading the same bytes from a list of all batches."""

from __future__ import annotations

from random import Random

from quorumd.log.tail_cache import TailCache
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.record_batch import encode_batch

NO_BOUND = 2**62


def some_appends(random: Random, count: int) -> list[tuple[int, bytes, int]]:
    """(base offset, data, end offset) of appends of one to three batches with one to three records."""
    appends = []
    offset = 50
    for _ in range(count):
        start = offset
        parts = []
        for _ in range(random.randint(1, 3)):
            values = [b"v" * random.randint(1, 40)] * random.randint(1, 3)
            parts.append(encode_batch(offset, 1, 0, values))
            offset += len(values)
        appends.append((start, b"".join(parts), offset))
    return appends


def expected_read(data: bytes, offset: int, limit: int, max_offset: int) -> bytes:
    """The expected bytes of a read, by a linear search."""
    parts = b""
    for header in headers(data):
        if header.end_offset > offset:
            if header.end_offset > max_offset or (parts and len(parts) + header.size > limit):
                break
            parts += data[header.position : header.position + header.size]
    return parts


def test_reads_are_those_of_the_whole_log() -> None:
    random = Random(7)
    for _ in range(10):
        appends = some_appends(random, 12)
        cache = TailCache()
        for append in appends:
            cache.append(*append)
        everything = b"".join(data for _, data, _ in appends)
        end = appends[-1][2]
        for offset in range(50, end):
            for limit in (0, 1, 100, 333, 1000, NO_BOUND):
                for max_offset in (end, end - 1, offset + 1, offset + 4):
                    found = cache.read(offset, limit, max_offset)
                    assert found == expected_read(everything, offset, limit, max_offset)


def test_reports_offsets_it_does_not_hold() -> None:
    appends = some_appends(Random(1), 3)
    cache = TailCache()
    assert cache.read(50, 100, NO_BOUND) is None
    for append in appends:
        cache.append(*append)
    assert cache.read(49, 100, NO_BOUND) is None
    assert cache.read(appends[-1][2], 100, NO_BOUND) is None
    cache.clear()
    assert cache.read(50, 100, NO_BOUND) is None


def test_keeps_the_newest_within_its_bounds() -> None:
    appends = some_appends(Random(2), 400)
    cache = TailCache(capacity=2000)
    for base_offset, data, end_offset in appends:
        cache.append(base_offset, data, end_offset)
        assert sum(map(len, cache._chunks)) == cache._bytes <= 4000
        assert cache.read(base_offset, NO_BOUND, NO_BOUND) == data
    kept = [base_offset for base_offset, _, _ in appends if cache.read(base_offset, 0, NO_BOUND) is not None]
    assert kept == [base_offset for base_offset, _, _ in appends][-len(kept) :]
    assert cache._bytes >= 2000 - 400


def test_cleared_cache_holds_as_much_as_a_new_one() -> None:
    new, cleared = TailCache(capacity=1000), TailCache(capacity=1000)
    for base_offset, data, end_offset in some_appends(Random(3), 10):
        cleared.append(base_offset, data, end_offset)
    cleared.clear()
    appends = some_appends(Random(4), 10)
    for base_offset, data, end_offset in appends:
        new.append(base_offset, data, end_offset)
        cleared.append(base_offset, data, end_offset)
    for base_offset, _, _ in appends:
        assert new.read(base_offset, NO_BOUND, NO_BOUND) == cleared.read(base_offset, NO_BOUND, NO_BOUND)


def test_append_larger_than_the_cache_is_not_kept() -> None:
    cache = TailCache(capacity=100)
    big = encode_batch(0, 1, 0, [b"v" * 1000])
    cache.append(0, big, 1)
    assert cache.read(0, 0, NO_BOUND) is None
    small = encode_batch(1, 1, 0, [b"v"])
    cache.append(1, small, 2)
    assert cache.read(1, 0, NO_BOUND) == small
