from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from threading import Event

import pytest

from quorumd.cli.pipeline.termination import Terminated, ends_on_sigterm
from quorumd.errors import JobFailed


async def forever() -> None:
    asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
    await asyncio.Event().wait()


def failing() -> None:
    """Java received the signal first."""
    try:
        signal.raise_signal(signal.SIGTERM)
    except KeyboardInterrupt:
        raise JobFailed("Spark's Java process ended") from None


@pytest.mark.parametrize(
    "job", [lambda: asyncio.run(forever()), lambda: signal.raise_signal(signal.SIGTERM), failing]
)
def test_sigterm_terminates_jobs(job: Callable[[], None]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Terminated), ends_on_sigterm():
        job()
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("error", [KeyboardInterrupt(), JobFailed("no memory")])
def test_errors_without_sigterm_are_kept(error: BaseException) -> None:
    with pytest.raises(type(error)) as raised, ends_on_sigterm():
        raise error
    assert raised.value is error


def test_sigterm_uses_handler_of_sigint() -> None:
    reported = Event()
    before = signal.signal(signal.SIGINT, lambda number, frame: reported.set())
    try:
        with ends_on_sigterm():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
    assert reported.is_set()


def test_sigterm_terminates_jobs_that_ignore_sigint() -> None:
    """A shell starts background jobs with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(Terminated), ends_on_sigterm():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
