"""The Listener port: accepts a few connections at a time, at a limited rate, and retries when the process or system
has no free files."""

from __future__ import annotations

import logging
import socket
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

ACCEPTED_PER_ITERATION: Final = 8
"""A few milliseconds of work, including the connections that are closed again."""
RETRY_S: Final = 0.5
"""Time without accepting after a failure, for example EMFILE."""


class TcpListener:
    """Passes accepted connections and their hosts to `admit` once the loop runs, which returns the seconds for which
    further connections wait. The socket is bound."""

    def __init__(
        self, sock: socket.socket, loop: AbstractEventLoop, admit: Callable[[socket.socket, str], float]
    ) -> None:
        self._socket = sock
        self._loop = loop
        self._admit = admit
        self._port = int(sock.getsockname()[1])
        self._retry: TimerHandle | None = None
        self._begin()

    @property
    def port(self) -> int:
        """See `ports.Listener`."""
        return self._port

    def close(self) -> None:
        """See `ports.Listener`."""
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _begin(self) -> None:
        self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        try:
            for _ in range(ACCEPTED_PER_ITERATION):
                accepted, address = self._socket.accept()
                accepted.setblocking(False)
                wait_s = self._admit(accepted, str(address[0]))
                if wait_s > 0:
                    self._pause(wait_s)
                    return
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            # For example no free descriptor. Established connections are not affected.
            logger.warning("cannot accept connections at port %d: %s", self._port, error.strerror)
            self._pause(RETRY_S)

    def _pause(self, wait_s: float) -> None:
        self._loop.remove_reader(self._socket)
        self._retry = self._loop.call_later(wait_s, self._begin)
