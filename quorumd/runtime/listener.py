"""The Listener port: accepts a few connections at a time, at a limited rate, and retries if the process or the system
has run out of descriptors."""

from __future__ import annotations

import logging
import socket
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

ACCEPTED_PER_ITERATION: Final = 8
"""A few milliseconds of work, also if the connections are refused."""
RETRY_S: Final = 0.5
"""Wait after a failure to accept, such as EMFILE."""


class TcpListener:
    """Accepts connections on the bound socket `sock` while the loop runs.

    `admit(connection, host)` is called for each; it returns for how many seconds no further one is accepted.
    """

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
            logger.warning("cannot accept connections on port %d: %s", self._port, error.strerror)
            self._pause(RETRY_S)

    def _pause(self, wait_s: float) -> None:
        self._loop.remove_reader(self._socket)
        self._retry = self._loop.call_later(wait_s, self._begin)
