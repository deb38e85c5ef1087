"""TLS and SASL of a running node, and the periodic refresh of keys and tokens."""

from __future__ import annotations

import logging
import time
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Mapping
from typing import Final

from quorumd.client.oauth import TokenSource, read_url
from quorumd.config.security import JwksSource, ListenerSecurity, SaslLogin, SaslServerSettings
from quorumd.errors import AuthenticationFailed
from quorumd.runtime.tls_listeners import TlsListeners
from quorumd.security.sasl.jwt_validator import JwtValidator
from quorumd.security.sasl.settings import ClientSasl, ListenerSasl, ServerSasl

logger = logging.getLogger(__name__)

RETRY_S: Final = 5.0
"""Wait after keys or a token could not be read, and the minimum interval of reads that unknown keys cause."""


class NodeSecurity:
    """Creates `tls` for the network and `sasl` for the node, and keeps both up to date once started."""

    def __init__(
        self,
        listeners: Mapping[str, ListenerSecurity],
        loop: AbstractEventLoop,
        on_expiry: Callable[[str, float], None],
    ) -> None:
        """`on_expiry`: see `TlsListeners`. Raises ConfigError if key material cannot be used."""
        with_tls = {name: each.tls for name, each in listeners.items() if each.tls is not None}
        self.tls = TlsListeners(with_tls, loop, on_expiry)
        self._loop = loop
        self._tasks: list[_Refresher] = []
        self.sasl = {
            name: ListenerSasl(
                self._server(each.sasl) if each.sasl is not None else None,
                self._client(each.login) if each.login is not None else None,
            )
            for name, each in listeners.items()
            if each.sasl is not None or each.login is not None
        }

    def start(self) -> None:
        """Start to watch files and to refresh keys and tokens."""
        self.tls.start()
        for task in self._tasks:
            task.refresh()

    def reload(self) -> None:
        """Read certificates, keys and tokens again."""
        self.tls.reload()
        for task in self._tasks:
            task.refresh()

    def close(self) -> None:
        """Stop refreshing keys and tokens."""
        for task in self._tasks:
            task.close()

    def _server(self, settings: SaslServerSettings) -> ServerSasl:
        return ServerSasl(
            settings.mechanisms,
            settings.users,
            self._validator(settings.jwks) if settings.jwks is not None else None,
            settings.max_reauth_ms,
            settings.max_token_bytes,
        )

    def _validator(self, source: JwksSource) -> JwtValidator:
        def read() -> float:
            validator.load_keys(read_url(source.url))
            return source.refresh_ms / 1000

        task = _Refresher(self._loop, f"keys of {source.url}", read)
        validator = JwtValidator(source.rules, lambda: time.time_ns() // 1_000_000, task.refresh_soon)
        validator.load_keys('{"keys": []}')
        self._tasks.append(task)
        return validator

    def _client(self, login: SaslLogin) -> ClientSasl:
        options = login.jaas.options
        name, password = options.get("username", ""), options.get("password", "")
        if not login.token_url:
            return ClientSasl(login.mechanism, name, password, login.jaas.is_token)
        source = TokenSource(login.token_url, options)

        def renew() -> float:
            source.renew()
            return max(source.renew_in_s, RETRY_S)

        self._tasks.append(_Refresher(self._loop, f"token of {login.token_url}", renew))
        return ClientSasl(login.mechanism, bearer_token=source.current)


class _Refresher:
    """Calls `read` on another thread, and again after the number of seconds that it returned."""

    def __init__(self, loop: AbstractEventLoop, what: str, read: Callable[[], float]) -> None:
        self._loop = loop
        self._what = what
        self._read = read
        self._timer: TimerHandle | None = None
        self._is_running = False
        self._not_before_s = 0.0

    def refresh(self) -> None:
        """Read now, unless a read is in progress."""
        if self._is_running:
            return
        self.close()
        self._is_running = True
        self._not_before_s = self._loop.time() + RETRY_S
        self._loop.run_in_executor(None, self._run).add_done_callback(
            lambda done: self._schedule(done.result() if not done.cancelled() else RETRY_S)
        )

    def refresh_soon(self) -> None:
        """Read now, unless the last read began less than RETRY_S ago."""
        if self._loop.time() >= self._not_before_s:
            self.refresh()

    def close(self) -> None:
        """Cancel the next read."""
        if self._timer is not None:
            self._timer.cancel()

    def _run(self) -> float:
        try:
            return self._read()
        except (AuthenticationFailed, OSError, ValueError) as error:
            logger.warning("cannot read the %s: %s", self._what, error)
            return RETRY_S

    def _schedule(self, wait_s: float) -> None:
        self._is_running = False
        self._timer = self._loop.call_later(wait_s, self.refresh)
