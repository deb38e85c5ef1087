"""SIGTERM ends a command of `quorumd pipeline` as Ctrl-C does, with a different exit code."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from quorumd.errors import ExitCode, JobFailed, QuorumdError


class Terminated(QuorumdError):
    """SIGTERM ended the command."""

    exit_code = ExitCode.TERMINATED


@contextmanager
def ends_on_sigterm() -> Iterator[None]:
    """Handle SIGTERM in the block as SIGINT is handled there at that moment, and raise Terminated at its end.

    A service manager sends SIGTERM to Spark's Java process too, so that a job may fail before the block notices it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    was_sent = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal was_sent
        was_sent = True
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            handler(signal.SIGINT, frame)
        else:
            # A shell ignores SIGINT for its background jobs.
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except (KeyboardInterrupt, JobFailed):
        if was_sent:
            raise Terminated("terminated") from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
