"""Every batch is found, all damage is located, and the division into pieces makes no difference."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from struct import pack_into
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c

from quorumd.pipeline.scan.batches import START, Place, Scanned, read_pieces, resync, scan
from quorumd.pipeline.scan.chain import Positions, chain
from quorumd.protocol import batch_scan
from quorumd.protocol.record_batch import encode_batch, encode_control_batch

SIZES = (3, 1, 40, 2, 2, 17, 1, 5)


def make_log(sizes: tuple[int, ...] = SIZES, first_offset: int = 0) -> tuple[bytearray, list[int]]:
    """A log and the positions of its batches; epochs are 1, 1, 2, 2, 3, ..."""
    data, bounds, offset = bytearray(), [0], first_offset
    for number, count in enumerate(sizes):
        values = [bytes([number % 256]) * (11 + index) for index in range(count)]
        data += encode_batch(offset, 1 + number // 2, 1_000 + number, values)
        offset += count
        bounds.append(len(data))
    return data, bounds


def codes(scanned: Scanned) -> list[tuple[str, int, int]]:
    return [(fault.code, fault.position, fault.offset) for fault in scanned.faults]


def reseal(data: bytearray, start: int, end: int) -> None:
    pack_into(">I", data, start + 17, crc32c(bytes(data[start + 21 : end])))


def test_sound_log_is_read_like_node() -> None:
    data, _ = make_log()
    data += encode_control_batch(71, 9, 5, [(b"\0\0\0\2", b"value")])
    scanned = scan(bytes(data), Place(0, 0, 0))
    batches = scanned.batches
    assert scanned.faults == []
    assert (scanned.end, scanned.next) == (len(data), Place(len(data), 72, 9))
    for index, header in enumerate(batch_scan.headers(bytes(data))):
        assert batches.position[index] == header.position
        assert batches.size[index] == header.size
        assert batches.base_offset[index] == header.base_offset
        assert batches.end_offset[index] == header.end_offset
        assert batches.epoch[index] == header.epoch
        assert batches.attributes[index] == header.attributes
        assert batches.base_timestamp[index] == header.timestamp_ms
        assert batches.max_timestamp[index] == header.max_timestamp_ms
        assert batches.count[index] == header.count
        assert batches.stored_crc[index] == batches.crc[index] == header.crc
    assert len(batches) == len(SIZES) + 1


def test_empty_log_is_valid() -> None:
    for data in (b"", bytes(10), bytes(1000)):
        scanned = scan(data)
        assert len(scanned.batches) == 0
        assert scanned.faults == []


def test_preallocated_space_is_not_a_fault() -> None:
    data, _ = make_log()
    scanned = scan(bytes(data + bytes(5_000)))
    assert len(scanned.batches) == len(SIZES)
    assert scanned.faults == []


def test_zeros_between_batches_break_chain() -> None:
    data, bounds = make_log()
    data[bounds[2] : bounds[3]] = bytes(bounds[3] - bounds[2])
    scanned = scan(bytes(data))
    assert codes(scanned) == [("BROKEN_CHAIN", bounds[2], 4)]
    assert scanned.faults[0].size == bounds[3] - bounds[2]
    assert len(scanned.batches) == len(SIZES) - 1


def test_changed_byte_is_bad_crc_and_batch_is_kept() -> None:
    data, bounds = make_log()
    data[bounds[2] + 100] ^= 1
    scanned = scan(bytes(data))
    assert codes(scanned) == [("BAD_CRC", bounds[2], 4)]
    assert scanned.batches.sound.tolist() == [True, True, False, *[True] * 5]
    assert scanned.faults[0].size == bounds[3] - bounds[2]


def test_end_of_damaged_batch_is_not_trusted() -> None:
    data, bounds = make_log()
    pack_into(">i", data, bounds[2] + 23, 7)
    assert codes(scan(bytes(data))) == [("BAD_CRC", bounds[2], 4)]


def test_much_damage_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    walked = []

    def counted(*arguments: Any) -> Positions:
        walked.append(chain(*arguments))
        return walked[-1]

    monkeypatch.setattr("quorumd.pipeline.scan.chain", counted)
    data, bounds = make_log((1,) * 2_000)
    for index in range(0, 2_000, 20):
        # This length covers the next batch: the chain continues to the end, but must not be trusted.
        pack_into(">i", data, bounds[index] + 8, bounds[index + 2] - bounds[index] - 12)
    scanned = scan(bytes(data))
    assert len(scanned.faults) == 100
    assert sum(map(len, walked)) < 10 * 2_000


def test_adjacent_damaged_batches_are_reported() -> None:
    data, bounds = make_log()
    data[bounds[2] + 100] ^= 1
    data[bounds[3] + 65] ^= 1
    assert codes(scan(bytes(data))) == [("BAD_CRC", bounds[2], 4), ("BAD_CRC", bounds[3], 44)]


@pytest.mark.parametrize("length", [0, 20, 49, 60, 100, 300, 100_000, 2**31 - 1])
def test_wrong_length_breaks_chain_until_next_batch(length: int) -> None:
    data, bounds = make_log()
    pack_into(">i", data, bounds[1] + 8, length)
    scanned = scan(bytes(data))
    assert codes(scanned) == [("BROKEN_CHAIN", bounds[1], 3)]
    assert scanned.faults[0].size == bounds[2] - bounds[1]
    assert len(scanned.batches) == len(SIZES) - 1


def test_length_covering_next_batch_is_rejected() -> None:
    data, bounds = make_log()
    pack_into(">i", data, bounds[1] + 8, bounds[3] - bounds[1] - 12)
    scanned = scan(bytes(data))
    assert codes(scanned) == [("BROKEN_CHAIN", bounds[1], 3)]
    assert scanned.batches.position.tolist() == [0, *bounds[2:-1]]


def test_wrong_magic_loses_one_batch() -> None:
    data, bounds = make_log()
    data[bounds[3] + 16] = 1
    scanned = scan(bytes(data))
    assert codes(scanned) == [("BROKEN_CHAIN", bounds[3], 44)]
    assert len(scanned.batches) == len(SIZES) - 1


def test_counts_contradicting_offsets_are_reported() -> None:
    data, bounds = make_log()
    pack_into(">i", data, bounds[2] + 57, 39)
    reseal(data, bounds[2], bounds[3])
    assert codes(scan(bytes(data))) == [("BAD_HEADER", bounds[2], 4)]
    pack_into(">i", data, bounds[2] + 57, -1)
    reseal(data, bounds[2], bounds[3])
    scanned = scan(bytes(data))
    assert codes(scanned) == [("BAD_HEADER", bounds[2], 4)]
    assert len(scanned.batches) == len(SIZES) - 1


def test_faults_between_batches_are_reported() -> None:
    first, first_bounds = make_log((2, 3), 10)
    second, _ = make_log((2,), 20)
    third, _ = make_log((2,), 21)
    scanned = scan(bytes(first + second + third), Place(0, 10, 5))
    end = len(first)
    assert codes(scanned) == [
        ("EPOCH_REGRESSION", 0, 10),
        ("GAP", end, 15),
        ("OVERLAP", end + len(second), 21),
    ]
    assert first_bounds[-1] == end
    assert len(scanned.batches) == 4


def test_torn_tail_is_reported() -> None:
    data, bounds = make_log()
    for kept in (8, 30, 61, 70):
        torn = bytes(data[: bounds[-2] + kept])
        scanned = scan(torn)
        assert codes(scanned) == [("TORN_TAIL", bounds[-2], 66)]
        assert scanned.faults[0].size == kept
        assert scanned.end == len(torn)
        more = scan(torn, is_last=False)
        assert more.faults == []
        assert more.next == Place(bounds[-2], 66, 4)


def test_batch_containing_batch_is_one_batch() -> None:
    inner, _ = make_log((2,), 7)
    data = encode_batch(0, 1, 0, [bytes(inner)] * 3) + encode_batch(3, 1, 0, [b"x"])
    assert len(scan(data).batches) == 2
    assert len(list(in_pieces(data, 100))) == 2


def test_resync_finds_batch_after_any_bytes() -> None:
    data, bounds = make_log()
    for start in range(1, bounds[3]):
        assert resync(bytes(data), start) == next(bound for bound in bounds if bound >= start)
    assert resync(bytes(data), bounds[-2] + 1) == -1
    assert resync(b"junk \x02" * 30 + data) == 180


def in_pieces(data: bytes, size: int) -> list[tuple[int, int]]:
    return [(place, base) for place, base, _ in pieces_of(data, size)[0]]


def pieces_of(data: bytes, size: int) -> tuple[list[tuple[int, int, int]], list[object]]:
    """All batches and faults of `data` read in pieces of `size`, or larger if necessary."""
    place, wanted, found, faults = START, size, [], []
    while True:
        piece = data[place.position : place.position + wanted]
        scanned = scan(piece, place, len(piece) < wanted)
        batches = scanned.batches
        found += zip(
            (batches.position + place.position).tolist(),
            batches.base_offset.tolist(),
            batches.crc.tolist(),
            strict=True,
        )
        faults += scanned.faults
        if len(piece) < wanted:
            return found, faults
        wanted = size if scanned.end else 2 * wanted
        place = scanned.next


def damaged_logs() -> list[bytes]:
    whole, bounds = make_log()
    logs = [bytes(whole), bytes(whole + bytes(300)), bytes(whole[:-5])]
    for at in (0, 8, 9, 10, 11, 16, 17, 25, 45, 57, 60, 64):
        data = bytearray(whole)
        data[bounds[3] + at] ^= 0x11
        logs.append(bytes(data))
    blanked = bytearray(whole)
    blanked[bounds[2] : bounds[5] + 3] = bytes(bounds[5] + 3 - bounds[2])
    return [*logs, bytes(blanked), bytes(whole[: bounds[2]] + bytes(500) + whole[bounds[2] :])]


@pytest.mark.parametrize("size", [1, 7, 64, 100, 333, 1000])
def test_result_does_not_depend_on_pieces(size: int) -> None:
    for data in damaged_logs():
        assert pieces_of(data, size) == pieces_of(data, 1 << 20)


def test_file_is_read_in_pieces(tmp_path: Path) -> None:
    for number, data in enumerate(damaged_logs()):
        path = tmp_path / str(number)
        path.write_bytes(data)
        found, faults = [], []
        for piece, position, scanned in read_pieces(path, piece_bytes=150):
            batches = scanned.batches
            for at, size in zip(batches.position.tolist(), batches.size.tolist(), strict=True):
                assert piece[at : at + size] == data[position + at : position + at + size]
            found += (batches.position + position).tolist()
            faults += scanned.faults
        expected, expected_faults = pieces_of(data, 1 << 20)
        assert found == [position for position, _, _ in expected]
        assert faults == expected_faults


def test_ranges_have_each_batch_and_fault_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for number, data in enumerate(damaged_logs()):
        path = tmp_path / str(number)
        path.write_bytes(data)
        expected, expected_faults = pieces_of(data, 1 << 20)
        for _ in range(30):
            cuts = sorted({0, *rng.integers(1, len(data), 3).tolist(), len(data) + 1})
            found, faults = [], []
            for start, stop in pairwise(cuts):
                for _, position, scanned in read_pieces(path, start, stop, piece_bytes=200):
                    found += (scanned.batches.position + position).tolist()
                    faults += scanned.faults
            assert found == [position for position, _, _ in expected], cuts
            assert faults == expected_faults, cuts


def test_first_batch_must_have_offset_of_file_name(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(make_log((2, 2), 5)[0]))
    ((_, _, right),) = read_pieces(path, base_offset=5)
    ((_, _, wrong),) = read_pieces(path, base_offset=4)
    assert codes(right) == []
    assert codes(wrong) == [("GAP", 0, 4)]
