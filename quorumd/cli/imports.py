"""Imports of large parts of the program."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Import modules without garbage collection, which would take a tenth of the time.

    Modules last as long as the process, so they are excluded from later collections too.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
