"""A shrunk disk rejects growth, accepts data after it is restored, and keeps its content."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos import small_disk
from tests.chaos.small_disk import LAST_BYTES, SmallDisk


@pytest.fixture(params=["as it comes", "not allowed to mount"])
def disk(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SmallDisk]:
    """The shim, and a tmpfs if mounting is allowed."""
    if request.param == "not allowed to mount":
        monkeypatch.setattr(small_disk, "_run", lambda *command: "permission denied")
    disk = SmallDisk(tmp_path / "node" / "data")
    yield disk
    disk.close()


def grown(disk: SmallDisk, file: Path, size: int) -> bool:
    """Return True if a process with the node's environment can create a file of this size."""
    script = f"import os, sys; os.pwrite(os.open({str(file)!r}, os.O_RDWR | os.O_CREAT), bytes({size}), 0)"
    environment = {**os.environ, **disk.environment()}
    command = [sys.executable, "-c", script]
    written = subprocess.run(command, env=environment, capture_output=True, timeout=300)
    return written.returncode == 0 and file.stat().st_size == size


def test_space_is_removed_and_restored(disk: SmallDisk, tmp_path: Path) -> None:
    file = tmp_path / "node" / "data" / "file"
    assert grown(disk, file, 1_000_000)
    disk.take_room()
    assert not grown(disk, file, 1_000_000 + 2 * LAST_BYTES)
    disk.give_room()
    assert grown(disk, file, 2_000_000)
    disk.close()
    assert file.stat().st_size == 2_000_000


def test_kind_names_the_implementation(disk: SmallDisk) -> None:
    assert disk.is_mounted == (disk.kind == "a tmpfs")
    assert disk.is_mounted or "no tmpfs could be mounted" in disk.kind
