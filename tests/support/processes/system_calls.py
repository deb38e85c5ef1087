"""Installs the system call filter of a systemd unit in a process without systemd, with seccomp and no further
package.

`system_calls.txt` lists the calls of each group with their numbers.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="systemd and its filters are Linux's")
"""CI runs on Linux and skips nothing; other systems have neither seccomp nor /proc."""
TABLE = Path(__file__).with_name("system_calls.txt")
COLUMNS = {"x86_64": 0, "aarch64": 1}
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000


def allowed_calls(unit: str) -> dict[str, int]:
    """Return the calls that the `SystemCallFilter` lines of a unit allow, by name: the first line begins the list,
    others add to it or remove from it (`~`)."""
    allowed: dict[str, int] = {}
    for line in unit.splitlines():
        key, _, value = line.partition("=")
        if key == "SystemCallFilter":
            for word in value.removeprefix("~").split():
                calls = _calls(word)
                if value.startswith("~"):
                    allowed = {name: number for name, number in allowed.items() if name not in calls}
                else:
                    allowed |= calls
    return allowed


def filter_of(unit: str) -> Callable[[], None]:
    """Return a function for a child process before exec: calls that the unit does not allow then fail with EPERM, in
    the child and in its descendants."""
    code = struct.pack("=HBBI", LOAD_WORD, 0, 0, 0)
    for number in sorted(allowed_calls(unit).values()):
        code += struct.pack("=HBBI", JUMP_IF_EQUAL, 0, 1, number) + struct.pack("=HBBI", RETURN, 0, 0, ALLOW)
    code += struct.pack("=HBBI", RETURN, 0, 0, FAIL | errno.EPERM)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    arguments = [ctypes.c_ulong(value) for value in (0, 0)]

    def install() -> None:
        is_refused = prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), ctypes.c_ulong(0), *arguments)
        if is_refused or prctl(PR_SET_SECCOMP, ctypes.c_ulong(MODE_FILTER), program, *arguments):
            raise OSError(ctypes.get_errno(), f"no system call filter can be installed ({len(buffer)} bytes)")

    return install


def _calls(word: str) -> dict[str, int]:
    """Return the calls of one word of a filter. Raises KeyError for a group that the table does not have."""
    groups = _groups()
    if word.startswith("@"):
        return groups[word]
    return {word: next(calls[word] for calls in groups.values() if word in calls)}


@cache
def _groups() -> dict[str, dict[str, int]]:
    column = COLUMNS[platform.machine()]
    groups: dict[str, dict[str, int]] = {}
    for line in TABLE.read_text().splitlines():
        if line.startswith("@"):
            calls = groups[line.rstrip(":")] = {}
        elif not line.startswith("#"):
            for entry in line.split():
                name, _, numbers = entry.partition("=")
                number = numbers.split("/")[column]
                if number != "-":
                    calls[name] = int(number)
    return groups
