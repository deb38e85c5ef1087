"""The declared layouts: sizes, golden bytes, and no import in a running node."""

from __future__ import annotations

import subprocess
import sys

import pytest
from construct import ConstructError

from quorumd.protocol import layouts
from quorumd.protocol.batch_header import HEADER_SIZE
from quorumd.protocol.record_batch import encode_batch


def test_sizes_are_kafkas() -> None:
    assert layouts.BatchHeader.sizeof() == HEADER_SIZE == 61
    assert layouts.OffsetIndexEntry.sizeof() == 8
    assert layouts.TimeIndexEntry.sizeof() == 12
    assert layouts.ControlRecordKey.sizeof() == 4


def test_index_entries() -> None:
    entries = [{"relative_offset": 5, "position": 4096}, {"relative_offset": 9, "position": 8192}]
    data = bytes.fromhex("00000005 00001000 00000009 00002000")
    assert layouts.OffsetIndex.build(entries) == data
    assert [dict(entry, _io=None) for entry in layouts.OffsetIndex.parse(data)] == [
        dict(entry, _io=None) for entry in entries
    ]
    (entry,) = layouts.TimeIndex.parse(bytes.fromhex("0000018bcfe56800 00000007"))
    assert (entry.timestamp, entry.relative_offset) == (1_700_000_000_000, 7)


def test_attributes_bit_by_bit() -> None:
    names = {
        0x07: {"compression": 7},
        0x08: {"timestamp_is_append_time": True},
        0x10: {"is_transactional": True},
        0x20: {"is_control": True},
        0x40: {"has_delete_horizon": True},
    }
    nothing = {
        "compression": 0,
        "timestamp_is_append_time": False,
        "is_transactional": False,
        "is_control": False,
        "has_delete_horizon": False,
    }
    for bits, expected in names.items():
        parsed = layouts.BatchAttributes.parse(bits.to_bytes(2, "big"))
        assert {name: parsed[name] for name in nothing} == nothing | expected


@pytest.mark.parametrize("at", [16, 62, -1])
def test_another_magic_attribute_or_header_count_is_refused(at: int) -> None:
    """Magic, attributes of the record and the count of record headers are constants."""
    data = bytearray(encode_batch(0, 1, 0, [b"value"]))
    data[at] ^= 2
    with pytest.raises(ConstructError):
        layouts.Batch.parse(bytes(data))


def test_running_node_never_imports_construct() -> None:
    code = (
        "import sys, pkgutil, importlib, quorumd.protocol as p\n"
        "for m in pkgutil.iter_modules(p.__path__):\n"
        "    if m.name != 'layouts': importlib.import_module('quorumd.protocol.' + m.name)\n"
        "sys.exit('construct' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
