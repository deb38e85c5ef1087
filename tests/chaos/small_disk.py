"""A file system of one node whose free space can be removed and restored while the node runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.support.processes import full_disk

ROOM_BYTES = 512 * 1024 * 1024
"""The size of the tmpfs, which uses memory only for its content."""
LAST_BYTES = 96 * 1024
"""The space that is left when the disk is shrunk; the node fills it by itself."""


class SmallDisk:
    """A tmpfs mounted at `directory`, which can be shrunk to its content and grown again.

    Where mounting is not allowed, the shim of `tests/support/processes/full_disk` simulates a full disk inside the
    node's process instead. `kind` names the implementation in use.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._flag = directory.with_name("full")
        directory.mkdir(parents=True)
        refusal = _run(
            "mount", "-t", "tmpfs", "-o", f"size={ROOM_BYTES},mode=755", "quorumd-chaos", str(directory)
        )
        self.is_mounted = refusal is None
        self.kind = "a tmpfs" if refusal is None else f"a shim, as no tmpfs could be mounted ({refusal})"

    def environment(self) -> dict[str, str]:
        """Return environment variables for the node's process."""
        if self.is_mounted:
            return {}
        shim = str(Path(next(iter(full_disk.__path__))))
        return {"PYTHONPATH": shim, "FULL_DISK_WHILE_EXISTS": str(self._flag)}

    def take_room(self) -> None:
        """Remove nearly all free space."""
        if not self.is_mounted:
            self._flag.touch()
            return
        for _ in range(100):
            status = os.statvfs(self._directory)
            used = (status.f_blocks - status.f_bfree) * status.f_frsize
            # The node may write in between, and a size below the content is rejected.
            if self._resize(used + LAST_BYTES) is None:
                return
        raise OSError(f"{self._directory} could not be shrunk")

    def give_room(self) -> None:
        """Restore the free space."""
        if not self.is_mounted:
            self._flag.unlink(missing_ok=True)
        elif (refusal := self._resize(ROOM_BYTES)) is not None:
            raise OSError(f"{self._directory} could not be grown: {refusal}")

    def close(self) -> None:
        """Unmount the tmpfs, and keep its content in an ordinary directory, to investigate anomalies."""
        if self.is_mounted:
            kept = self._directory.with_name("kept")
            shutil.copytree(self._directory, kept)
            _run("umount", str(self._directory))
            self._directory.rmdir()
            kept.rename(self._directory)
            self.is_mounted = False

    def _resize(self, size: int) -> str | None:
        return _run("mount", "-o", f"remount,size={size}", str(self._directory))


def _run(*command: str) -> str | None:
    """Run a command and return its error; None if it succeeded."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except OSError as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"
