"""The Listener port: accepts connections a few at a time, also when the process or the system runs out of files."""

from __future__ import annotations

import logging
import socket
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

ACCEPTED_PER_TURN: Final = 8
"""Some milliseconds of work, with the connections that are closed again."""
RETRY_S: Final = 0.5
"""Time without accepting after a failure, for example EMFILE."""


class TcpListener:
    """Bound when created; passes connections and the hosts they come from to `admit` once the loop runs."""

    def __init__(
        self, sock: socket.socket, loop: AbstractEventLoop, admit: Callable[[socket.socket, str], None]
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
            for _ in range(ACCEPTED_PER_TURN):
                accepted, address = self._socket.accept()
                accepted.setblocking(False)
                self._admit(accepted, str(address[0]))
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            # Whatever it is, for example no free descriptor, connections that are established go on.
            logger.warning("cannot accept connections at port %d: %s", self._port, error.strerror)
            self._loop.remove_reader(self._socket)
            self._retry = self._loop.call_later(RETRY_S, self._begin)
