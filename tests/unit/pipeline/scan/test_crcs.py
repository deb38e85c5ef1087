"""quorumd.pipeline.scan.crcs: verification in groups equals one by one, whichever byte is damaged."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from crc32c import crc32c

from quorumd.pipeline.scan import crcs as batch_crcs
from quorumd.pipeline.scan.chain import Positions
from quorumd.pipeline.scan.crcs import all_match, computed_crcs
from quorumd.protocol.record_batch import encode_batch


def make_log(count: int, seed: int = 1) -> tuple[bytearray, Positions]:
    lots = Random(seed)
    batches = [encode_batch(7 + i, 3, 1_000 + i, [lots.randbytes(lots.randrange(40))]) for i in range(count)]
    return bytearray(b"".join(batches)), np.cumsum([0, *map(len, batches)], dtype=np.int64)


def stored(data: bytes, bounds: Positions) -> npt.NDArray[np.uint32]:
    return np.array([int.from_bytes(data[at + 17 : at + 21]) for at in bounds[:-1].tolist()], np.uint32)


def one_by_one(data: bytes, bounds: Positions) -> list[int]:
    return [crc32c(data[at + 21 : end]) for at, end in pairwise(bounds.tolist())]


def test_any_changed_covered_byte_is_detected() -> None:
    data, bounds = make_log(5)
    assert all_match(memoryview(data), bounds, stored(data, bounds))
    for at, end in pairwise(bounds.tolist()):
        for place in range(at, end):
            for bit in (1, 0x80):
                data[place] ^= bit
                is_covered = place >= at + 17
                assert all_match(memoryview(data), bounds, stored(data, bounds)) is not is_covered
                data[place] ^= bit


@pytest.mark.parametrize("seed", range(20))
def test_damaged_batches_have_computed_crcs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_crcs, "_TOGETHER", 1 << 10)
    lots = Random(seed)
    data, bounds = make_log(300, seed)
    for _ in range(lots.choice((0, 1, 2, 50))):
        data[lots.randrange(len(data))] ^= 1 << lots.randrange(8)
    found = computed_crcs(memoryview(data), bounds, stored(data, bounds))
    assert found.tolist() == one_by_one(data, bounds)


def test_large_and_small_batches_are_mixed() -> None:
    sizes = (3, 90_000, 1, 0, 700_000, 5, 5)
    batches = [encode_batch(at, 1, 1, [bytes([at]) * size]) for at, size in enumerate(sizes)]
    data = b"before" + b"".join(batches)
    bounds = np.cumsum([6, *map(len, batches)], dtype=np.int64)
    for first, last in ((0, 7), (2, 4), (4, 5), (5, 7), (3, 3)):
        some = bounds[first : last + 1]
        assert computed_crcs(memoryview(data), some, stored(data, some)).tolist() == one_by_one(data, some)


def test_sound_batches_are_verified_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_crcs, "_one_by_one", None)
    data, bounds = make_log(20_000)
    assert computed_crcs(memoryview(data), bounds, stored(data, bounds)).tolist() == one_by_one(data, bounds)
