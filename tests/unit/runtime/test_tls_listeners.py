"""Certificates that are watched: their expiry as a metric and a warning, and new ones without a restart."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from quorumd.runtime.tls_listeners import TlsListeners
from quorumd.security.tls import KeyStore, TlsSettings
from tests.support.security.certificates import Certificates

DAY_S = 86_400


class Loop:
    """The part of an event loop that is used: timers, which a test fires."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        raise AssertionError("nothing is decrypted")

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Loop:
        self.timers.append(callback)
        return self

    def cancel(self) -> None:
        self.timers.clear()


class Watched:
    """A listener whose certificate expires in 40 days."""

    def __init__(self, directory: Path) -> None:
        self.certificates = Certificates(directory)
        self.expires = datetime.now(UTC).replace(microsecond=0) + timedelta(days=40)
        self.file = self.certificates.issue("node-1", expires=self.expires)
        self.now_s = datetime.now(UTC).timestamp()
        self.reported: list[tuple[str, float]] = []
        self.loop = Loop()
        settings = {"SECURE": TlsSettings(KeyStore(str(self.file)))}
        self.listeners = TlsListeners(
            settings,
            cast("Any", self.loop),
            lambda name, expires_s: self.reported.append((name, expires_s)),
            lambda: self.now_s,
        )
        self.listeners.start()

    def pass_days(self, days: float) -> None:
        self.now_s += days * DAY_S
        self.loop.timers.pop()()


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    caplog.clear()
    return found


def test_expiry_is_reported_and_warned_of_once_a_day(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    assert watched.reported == [("SECURE", watched.expires.timestamp())]
    assert warnings(caplog) == []
    watched.pass_days(11)
    (warning,) = warnings(caplog)
    assert "SECURE" in warning
    assert "29.0 days" in warning
    watched.pass_days(0.5)
    assert warnings(caplog) == []
    watched.pass_days(0.5)
    assert len(warnings(caplog)) == 1
    watched.pass_days(30)
    (warning,) = warnings(caplog)
    assert "has expired" in warning


def test_new_certificate_is_noticed(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    before = watched.listeners.accepted("SECURE")
    later = watched.expires + timedelta(days=300)
    watched.certificates.issue("node-1", expires=later)
    watched.pass_days(0)
    assert watched.reported[-1] == ("SECURE", later.timestamp())
    assert before is not None
    assert warnings(caplog) == []


def test_unusable_file_leaves_the_old_certificate_in_force(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.file.write_text("nothing")
    watched.listeners.reload()
    assert watched.reported[-1] == ("SECURE", watched.expires.timestamp())
    (error,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert str(watched.file) in error.getMessage()
    watched.listeners.close()
    assert watched.loop.timers == []
