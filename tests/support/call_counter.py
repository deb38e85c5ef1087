"""Counts function calls, a measure of work that does not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class CallCounter:
    """Counts the calls of Python and built-in functions in blocks."""

    def __init__(self) -> None:
        self.longest = 0
        """The most calls that one counted block has made."""
        self._calls = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count the calls of a block."""
        self._calls = 0
        sys.setprofile(self._count)
        try:
            yield
        finally:
            sys.setprofile(None)
            self.longest = max(self.longest, self._calls)

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        del frame, argument
        self._calls += event in ("call", "c_call")
