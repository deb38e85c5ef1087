from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from quorumd.runtime.memory import LARGE_BLOCK, return_large_blocks

GROW_AND_FREE = f"""
import os
from quorumd.runtime.memory import return_large_blocks

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

return_large_blocks()
del_first = bytearray(16 << 20)
del del_first
before = resident()
blocks = [bytearray({LARGE_BLOCK} + 1) for _ in range(30)]
keep = bytearray(1000)
blocks.clear()
print(resident() - before)
"""


def test_large_blocks_are_returned_when_they_are_freed() -> None:
    result = subprocess.run([sys.executable, "-c", GROW_AND_FREE], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 4 * LARGE_BLOCK


def test_option_is_absent_in_other_c_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    return_large_blocks()
