"""The TLS contexts of a node by listener name: built at the start, and rebuilt when their files change."""

from __future__ import annotations

import logging
import os
import time
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Mapping
from typing import Final

from quorumd.client.tls import TlsContexts, build_contexts
from quorumd.errors import ConfigError
from quorumd.runtime.tls import Handshakes, TlsStream
from quorumd.security.principals import PrincipalMapper
from quorumd.security.tls import TlsSettings

logger = logging.getLogger(__name__)

WATCH_INTERVAL_S: Final = 10.0
WARNING_DAYS: Final = 30
_DAY_S: Final = 86_400
_FileState = tuple[tuple[int, int, int] | None, ...]


class _TlsListener:
    """The settings of one listener name, and the contexts for new connections."""

    def __init__(self, name: str, settings: TlsSettings) -> None:
        self.name = name
        self.settings = settings
        self.mapper = PrincipalMapper(settings.principal_rules)
        self.files = _state_of(settings.files)
        self.contexts: TlsContexts = build_contexts(settings)


class TlsListeners:
    """Creates the TLS streams of connections; those of listener names without TLS have none.

    `on_expiry` is called with a listener name and the Unix time in seconds at which its certificate expires.
    """

    def __init__(
        self,
        settings: Mapping[str, TlsSettings],
        loop: AbstractEventLoop,
        on_expiry: Callable[[str, float], None] = lambda name, expires_s: None,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        """Build the contexts. Raises ConfigError if key material cannot be used."""
        self._loop = loop
        self._wall_s = wall_s
        self._on_expiry = on_expiry
        self._listeners = {name: _TlsListener(name, each) for name, each in settings.items()}
        self._timer: TimerHandle | None = None
        self._next_warning_s = 0.0
        self.handshakes = Handshakes(loop)

    def accepted(self, listener: str) -> TlsStream | None:
        """The stream of an accepted connection, None without TLS."""
        found = self._listeners.get(listener)
        if found is None:
            return None
        context = found.contexts.server
        assert context is not None, f"listener {listener} has no certificate"
        return TlsStream(context, self.handshakes, found.mapper)

    def outgoing(self, listener: str, host: str) -> TlsStream | None:
        """The stream of a connection to this listener of another node, None without TLS."""
        found = self._listeners.get(listener)
        if found is None:
            return None
        return TlsStream(found.contexts.client, self.handshakes, None, host)

    def start(self) -> None:
        """Report when certificates expire, and watch the files."""
        self._watch()

    def reload(self) -> None:
        """Read the key material again, for new connections. The previous contexts are kept if it cannot be used."""
        for each in self._listeners.values():
            self._reload(each)
        self._report_expiry()

    def close(self) -> None:
        """Stop watching the files."""
        if self._timer is not None:
            self._timer.cancel()
        self.handshakes.close()

    def _watch(self) -> None:
        for each in self._listeners.values():
            if _state_of(each.settings.files) != each.files:
                self._reload(each)
        self._report_expiry()
        if self._listeners:
            self._timer = self._loop.call_later(WATCH_INTERVAL_S, self._watch)

    def _reload(self, listener: _TlsListener) -> None:
        listener.files = _state_of(listener.settings.files)
        try:
            listener.contexts = build_contexts(listener.settings)
        except ConfigError as error:
            logger.error("listener %s keeps its previous certificates: %s", listener.name, error)
            return
        logger.info("listener %s has reloaded its certificates", listener.name)

    def _report_expiry(self) -> None:
        now_s = self._wall_s()
        is_warning = now_s >= self._next_warning_s
        for each in self._listeners.values():
            expires_s = each.contexts.expires_at_s
            if expires_s is None:
                continue
            self._on_expiry(each.name, expires_s)
            if is_warning and expires_s - now_s < WARNING_DAYS * _DAY_S:
                days = (expires_s - now_s) / _DAY_S
                logger.warning(
                    "the certificate of listener %s %s; replace its file",
                    each.name,
                    f"expires in {days:.1f} days" if days > 0 else "has expired",
                )
        if is_warning:
            self._next_warning_s = now_s + _DAY_S


def _state_of(paths: tuple[str, ...]) -> _FileState:
    """Times, sizes and inodes of the files, to detect a change."""
    return tuple(_stat(path) for path in paths)


def _stat(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
