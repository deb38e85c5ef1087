"""quorumd.pipeline.scan.chain: walks in lock step give the result of one walk, whatever the bytes are."""

from __future__ import annotations

from random import Random
from struct import pack_into, unpack_from

import pytest

from quorumd.pipeline.scan import chain as batch_chain
from quorumd.pipeline.scan.chain import chain
from quorumd.pipeline.scan.search import LARGEST_BATCH

SMALL = 4_000
"""Enough batches for more than one walk."""


def header(size: int) -> bytes:
    data = bytearray(61)
    pack_into(">i", data, 8, size - 12)
    data[16] = 2
    data[43:57] = b"\xff" * 14
    return bytes(data)


def small_batches(lots: Random, count: int = SMALL) -> bytearray:
    """Some contain bytes that look like the start of a batch, as a record may."""
    data = bytearray()
    for _ in range(count):
        size = lots.randint(61, 200)
        batch = header(size) + lots.randbytes(size - 61)
        if size > 130 and lots.random() < 0.05:
            batch = batch[: size - 65] + header(lots.randint(61, 900)) + batch[size - 4 :]
        data += batch
    return data


def plain_chain(data: bytes, at: int, most: int) -> list[int]:
    bounds = [at]
    while at + 61 <= len(data) and len(bounds) <= most and data[at + 16] == 2:
        (length,) = unpack_from(">i", data, at + 8)
        if not 49 <= length <= LARGEST_BATCH - 12 or at + length + 12 > len(data):
            break
        at += length + 12
        bounds.append(at)
    return bounds


def damaged(lots: Random) -> bytes:
    data = small_batches(lots)
    for _ in range(lots.choice((0, 0, 1, 1, 5))):
        at = lots.choice(plain_chain(data, 0, SMALL)[:-1])
        match lots.randrange(5):
            case 0:
                data[at + 16] = 3
            case 1:
                pack_into(">i", data, at + 8, lots.choice((-1, 0, 48, 50, 70_000, 1 << 30, (1 << 31) - 1)))
            case 2:
                data[at : at + 3_000] = bytes(min(3_000, len(data) - at))
            case 3:
                data[at + 43] = 0
            case 4:
                del data[at : at + lots.randrange(200)]
    return bytes(data[: len(data) - lots.choice((0, 1, 30, 61, 100))])


@pytest.mark.parametrize("seed", range(60))
def test_lock_step_walks_equal_one_walk(seed: int) -> None:
    lots = Random(seed)
    data = damaged(lots)
    begin = lots.choice((0, 0, lots.choice(plain_chain(data, 0, SMALL))))
    for most in (1, 32, 33, 100, SMALL - 7, len(data)):
        walked = chain(memoryview(data), begin, len(data), most)
        assert walked.tolist() == plain_chain(data, begin, most)


def test_most_batches_are_walked_in_lock_step(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(small_batches(Random(1)))
    alone = 0
    walk = batch_chain._walk

    def counted(*arguments: object) -> list[int]:
        nonlocal alone
        found = walk(*arguments)  # type: ignore[arg-type]  # passed on as they are
        alone += len(found) - 1
        return found

    monkeypatch.setattr(batch_chain, "_walk", counted)
    assert len(chain(memoryview(data), 0, len(data), len(data))) == SMALL + 1
    assert alone < SMALL / 5


def test_oversized_batch_ends_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_chain, "LARGEST_BATCH", 190)
    monkeypatch.setattr(batch_chain, "LARGEST_LENGTH", 178)
    data = bytearray(header(100) + bytes(39)) * SMALL
    at = 100 * (SMALL // 2)
    pack_into(">i", data, at + 8, 188)
    assert chain(memoryview(data), 0, len(data), len(data))[-1] == at


def test_starts_without_batch_are_discarded() -> None:
    data = header(100) + bytes(39)
    nothing = bytearray(data)
    pack_into(">i", nothing, 8, 0)
    assert chain(memoryview(data * 40 + nothing * SMALL), 0, 100 * (SMALL + 40), SMALL)[-1] == 4_000
