"""Walks over batches in memory, by the rules of either log."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.errors import MalformedMessage
from quorumd.protocol.batch_scan import Ascending, BatchRules, Gapless, headers, scan, validate
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from tests.support.log.data_batches import produced
from tests.support.log.raw_batches import resealed
from tests.support.text import shows

TIME = 1_700_000_000_000


def three_batches() -> bytes:
    return (
        encode_batch(10, 1, TIME, [b"a", b"bb"])
        + encode_control_batch(12, 2, TIME, [(b"\0\0\0\2", b"leader")])
        + encode_batch(13, 2, TIME, [b"c" * 5000])
    )


def test_headers_have_the_position_of_each_batch() -> None:
    data = three_batches()
    found = list(headers(data))
    assert [(h.base_offset, h.end_offset, h.count, h.epoch, h.is_control) for h in found] == [
        (10, 12, 2, 1, False),
        (12, 13, 1, 2, True),
        (13, 14, 1, 2, False),
    ]
    assert [h.position for h in found] == [0, found[0].size, found[0].size + found[1].size]
    assert found[2].position + found[2].size == len(data)
    assert [h.base_offset for h in headers(data, found[1].position)] == [12, 13]
    assert shows(repr(found[1]), "control", "12..13", "epoch 2", f"{found[1].size} bytes", found[1].position)


def test_headers_stop_at_zeros_and_reject_other_bytes() -> None:
    data = three_batches()
    assert len(list(headers(data + bytes(5000)))) == 3
    assert len(list(headers(data + bytes(3)))) == 3
    assert list(headers(b"")) == []
    with pytest.raises(MalformedMessage, match=rf"position {len(data)}: magic"):
        list(headers(data + b"x" * 100))
    with pytest.raises(MalformedMessage, match=rf"position {len(data)}: 7 bytes left"):
        list(headers(data + b"garbage"))
    with pytest.raises(MalformedMessage, match=r"offset 13.* bytes"):
        list(headers(data[:-1]))


def test_validate_accepts_batches_of_a_leader() -> None:
    data = three_batches()
    assert [header.base_offset for header in validate(data, Gapless())] == [10, 12, 13]
    assert [header.base_offset for header in validate(data, Gapless(10))] == [10, 12, 13]
    assert validate(b"", Gapless()) == []


def test_validate_names_the_fault() -> None:
    one, two = encode_batch(10, 2, TIME, [b"a", b"bb"]), encode_batch(12, 2, TIME, [b"c"])
    with pytest.raises(MalformedMessage, match="offset 11 was expected"):
        validate(one, Gapless(11))
    with pytest.raises(MalformedMessage, match="offset 12 was expected"):
        validate(one + one, Gapless())
    with pytest.raises(MalformedMessage, match=r"epoch 1 .*epoch 2\b"):
        validate(one + encode_batch(12, 1, TIME, [b"c"]), Gapless())
    with pytest.raises(MalformedMessage, match="only zeros"):
        validate(one + two + bytes(61), Gapless())
    with pytest.raises(MalformedMessage, match="are present"):
        validate(one + two[:-1], Gapless())
    with pytest.raises(MalformedMessage, match="CRC does not match"):
        validate(one[:-2] + b"x\0", Gapless())
    fewer = bytearray(one)
    fewer[57:61] = (1).to_bytes(4, "big")
    with pytest.raises(MalformedMessage, match=r"\b1 records .*\b2 offsets"):
        validate(resealed(bytes(fewer)), Gapless())


def test_epoch_may_be_restamped_without_the_crc() -> None:
    data = bytearray(encode_batch(7, 3, TIME, [b"hi"]))
    data[12:16] = (4).to_bytes(4, "big")
    assert validate(bytes(data), Gapless())[0].epoch == 4


def test_scan_reports_end_and_cause_of_the_valid_prefix() -> None:
    data = three_batches()
    whole = scan(data, Gapless())
    assert (len(whole.headers), whole.end, whole.fault, whole.incomplete) == (3, len(data), "", False)

    preallocated = scan(data + bytes(4096), Gapless())
    assert (len(preallocated.headers), preallocated.end, preallocated.fault) == (3, len(data), "")

    last = whole.headers[2]
    torn = scan(data[:-10], Gapless())
    assert (torn.end, torn.incomplete, torn.needed_bytes) == (last.position, True, last.size)
    assert "are present" in torn.fault

    cut_in_header = scan(data[: last.position + 9], Gapless())
    assert (cut_in_header.end, cut_in_header.needed_bytes) == (last.position, 61)

    flipped = bytearray(data)
    flipped[-1] ^= 1
    corrupt = scan(bytes(flipped), Gapless())
    assert (corrupt.end, corrupt.incomplete) == (last.position, False)
    assert "CRC" in corrupt.fault

    assert "offset 9 was expected" in scan(data, Gapless(9)).fault
    assert "epoch 1 after epoch 5" in scan(data, Gapless(10, 5)).fault
    assert "magic" in scan(data + b"x" * 100, Gapless()).fault


def test_scan_stops_at_any_flipped_bit() -> None:
    random = Random(3)
    batches = [produced([(b"k", random.randbytes(50))], base_offset=index) for index in range(3)]
    data = b"".join(batches)
    second = len(batches[0])
    for position in range(second, second + len(batches[1])):
        if second + 12 <= position < second + 16:
            continue  # The leader epoch is not covered.
        changed = bytearray(data)
        changed[position] ^= 1 << random.randrange(8)
        found = scan(bytes(changed), Ascending())
        # Before magic only the base offset may still be plausible: the CRC does not cover it.
        if position >= second + 8:
            assert found.end == second
            assert found.fault


def test_scan_accepts_gaps_and_refuses_offsets_below_the_end() -> None:
    data = produced(base_offset=5) + produced(base_offset=9)
    assert [batch.base_offset for batch in scan(data, Ascending(5)).headers] == [5, 9]
    assert scan(data, Ascending(6)).headers == []
    assert len(scan(produced(base_offset=5) + produced(base_offset=5), Ascending()).headers) == 1


def test_scan_reports_how_much_a_cut_off_batch_needs() -> None:
    data = produced() + produced([(b"k", b"v" * 200)], base_offset=1)
    first = len(produced())
    found = scan(data[: first + 30], Ascending())
    assert (found.end, found.needed_bytes) == (first, 61)
    found = scan(data[: first + 100], Ascending())
    assert (found.end, found.needed_bytes) == (first, len(data) - first)


def test_scan_stops_silently_at_zeros() -> None:
    found = scan(produced() + bytes(500), Ascending())
    assert (len(found.headers), found.fault) == (1, "")


def test_partition_log_may_have_fewer_records_than_offsets_but_not_more() -> None:
    data = bytearray(produced([(b"k", b"v")] * 3))
    for count in (0, 2, 3):
        data[57:61] = count.to_bytes(4, "big")
        assert scan(resealed(bytes(data)), Ascending()).fault == ""
    data[57:61] = (4).to_bytes(4, "big")
    assert "4 records for 3 offsets" in scan(resealed(bytes(data)), Ascending()).fault


def test_without_crc_the_records_are_not_read() -> None:
    data = produced([(b"k", b"v")])[:-1] + b"x"
    assert "CRC" in scan(data, Ascending()).fault
    assert scan(data, Ascending(with_crc=False)).fault == ""


def test_structure_alone_accepts_any_order() -> None:
    data = encode_batch(13, 2, TIME, [b"a"]) + encode_batch(7, 1, TIME, [b"b"])
    assert [header.base_offset for header in scan(data, BatchRules()).headers] == [13, 7]
    assert "are present" in scan(data[:-1], BatchRules()).fault
