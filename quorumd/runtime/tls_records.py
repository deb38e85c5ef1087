"""Divides received ciphertext into whole TLS records, of which an iteration of the event loop decrypts a few.

OpenSSL handles all records that it has until it finds plaintext: empty ones, and the KeyUpdates of TLS 1.3, each of
which derives new keys from 27 bytes. It therefore gets no more than are to be handled before any other event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

from quorumd.log_limit import LogLimit
from quorumd.runtime.next_iteration import NextIteration

logger = logging.getLogger("quorumd.connections")

RECORDS_AT_ONCE: Final = 256
"""Records of a connection that are decrypted before other connections have their turn: up to 4 MiB."""
RECORDS_PER_ITERATION: Final = 1024
"""Records of all connections in one iteration: a few milliseconds, unless most of them are large. The loop reads up
to 10,000 records with one byte, or 9,700 KeyUpdates, from each connection."""
MAX_WAITING_BYTES: Final = 16 * 1024 * 1024
_HEADER_BYTES: Final = 5
_MAX_RECORD_BYTES: Final = 16 * 1024 + 2048
_MAJOR_VERSION: Final = 3


class RecordQueue:
    """The received bytes of one connection that are not decrypted yet."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = b""

    def __len__(self) -> int:
        return len(self._data)

    def add(self, data: bytes) -> None:
        """Append received bytes."""
        self._data = self._data + data if self._data else data

    def take(self, most: int) -> tuple[bytes, int]:
        """Remove and return up to `most` whole records, and their number.

        Bytes without a valid header are returned as one with all that follows, so that OpenSSL rejects them.
        """
        data, end, count = self._data, 0, 0
        while count < most and end + _HEADER_BYTES <= len(data):
            size = data[end + 3] << 8 | data[end + 4]
            stop = end + _HEADER_BYTES + size
            if data[end + 1] != _MAJOR_VERSION or size > _MAX_RECORD_BYTES:
                stop = len(data)
            if stop > len(data):
                break
            end = stop
            count += 1
        self._data = data[end:]
        return data[:end], count


class Decrypting(Protocol):
    """A connection with ciphertext that waits."""

    peer: str

    @property
    def encrypted_bytes(self) -> int: ...

    def continue_decrypting(self) -> None:
        """Decrypt records that were received in an earlier iteration."""

    def abort(self) -> None:
        """Close the connection and release the ciphertext."""


class DecryptionShares:
    """Shares the records that are decrypted per iteration, and the memory of those that wait, among all connections.
    `call_soon` calls back in the next iteration."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object], warnings: LogLimit) -> None:
        self._warnings = warnings
        self._next_iteration = NextIteration(call_soon, self._begin_iteration)
        self._remaining = RECORDS_PER_ITERATION
        self._waiting: dict[Decrypting, int] = {}
        """The connections that wait for their turn, with the bytes of each."""
        self._waiting_bytes = 0

    def take(self, records: RecordQueue) -> tuple[bytes, bool]:
        """Remove and return the records that a connection may decrypt now, and whether it must wait for a turn."""
        most = min(RECORDS_AT_ONCE, self._remaining)
        data, count = records.take(most)
        self._remaining -= count
        # Renewing the limit in every iteration would cost each record a callback.
        if self._remaining < RECORDS_PER_ITERATION // 2:
            self._next_iteration.request()
        return data, count == most and len(records) > 0

    def wait(self, connection: Decrypting) -> None:
        """Let a connection continue when it is its turn. If too many bytes wait, abort the connection with most."""
        self._remove(connection)
        self._waiting[connection] = connection.encrypted_bytes
        self._waiting_bytes += connection.encrypted_bytes
        while self._waiting_bytes > MAX_WAITING_BYTES:
            largest = max(self._waiting, key=self._waiting.__getitem__)
            self._abort(largest)
        self._next_iteration.request()

    def _abort(self, connection: Decrypting) -> None:
        bytes_waiting = self._waiting[connection]
        text = (
            f"aborting the connection with {connection.peer}: {bytes_waiting} bytes of it wait for decryption"
        )
        self._warnings.warn(logger, "undecrypted", text)
        self._remove(connection)
        connection.abort()

    def _remove(self, connection: Decrypting) -> None:
        self._waiting_bytes -= self._waiting.pop(connection, 0)

    def _begin_iteration(self) -> None:
        self._remaining = RECORDS_PER_ITERATION
        for connection in tuple(islice(self._waiting, RECORDS_PER_ITERATION)):
            if self._remaining <= 0:
                break
            self._remove(connection)
            connection.continue_decrypting()
        if self._waiting:
            self._next_iteration.request()
