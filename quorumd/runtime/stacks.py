"""The stacks of all threads as one event of a JSON log."""

from __future__ import annotations

import logging
import os
import select
from threading import Thread

logger = logging.getLogger("quorumd.daemon")

QUIET_S = 0.05
"""A dump is complete once nothing was written for this long."""
PART_BYTES = 64 * 1024


class StackLog:
    """Logs each dump that `faulthandler` writes to `descriptor`, on a thread of its own."""

    def __init__(self) -> None:
        self._read_end, self.descriptor = os.pipe()
        # No thread may wait for this one, so output beyond the pipe's capacity is lost.
        os.set_blocking(self.descriptor, False)
        Thread(target=self._run, name="stacks", daemon=True).start()

    def _run(self) -> None:
        while first := os.read(self._read_end, PART_BYTES):
            dump = first
            while select.select([self._read_end], [], [], QUIET_S)[0]:
                part = os.read(self._read_end, PART_BYTES)
                if not part:
                    break
                dump += part
            logger.info("stacks of all threads", extra={"stacks": dump.decode(errors="replace")})
