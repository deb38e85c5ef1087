"""Stacks of all threads as one event of the log, where the log is for machines."""

from __future__ import annotations

import logging
import os
import select
from threading import Thread

logger = logging.getLogger("quorumd.daemon")

QUIET_S = 0.05
"""Nothing more of a dump comes after such a pause."""
PART_BYTES = 64 * 1024


class StackLog:
    """`faulthandler` writes to `descriptor`, from C and whatever the event thread does; a thread logs each dump."""

    def __init__(self) -> None:
        self._read_end, self.descriptor = os.pipe()
        # Of more than the pipe holds the rest is lost: nothing may wait for this thread.
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
