"""TLS of one connection between the socket and the Network port: ciphertext on one side, plaintext on the other.

Handshakes, the only expensive part, run on a separate thread and are limited in number and time. A failed handshake
closes only its connection.
"""

from __future__ import annotations

import logging
import ssl
import time
from asyncio import AbstractEventLoop, Future, TimerHandle, Transport
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from quorumd.client.tls import subject_of
from quorumd.errors import MalformedMessage
from quorumd.log_limit import LogLimit
from quorumd.ports import ANONYMOUS
from quorumd.runtime.tls_records import DecryptionShares, RecordQueue
from quorumd.security.principals import PrincipalMapper

logger = logging.getLogger(__name__)
connections = logging.getLogger("quorumd.connections")

HANDSHAKE_TIMEOUT_S: Final = 10.0
MAX_HANDSHAKES: Final = 256
"""Maximum number of unfinished handshakes of accepted connections. A further one replaces the oldest that waits for
its client, so that silent clients do not keep others out. A handshake whose client has left counts until the thread
has finished its step, since it needs memory until then."""
MAX_HANDSHAKE_BYTES: Final = 256 * 1024
"""Maximum bytes that a peer may send before its handshake is complete; certificate chains have a few KiB."""
MAX_REASONS: Final = 8
"""Reasons of failed handshakes that are distinguished in the log within an interval."""
MAX_UNREAD_BYTES: Final = 64 * 1024
"""Bytes of messages of TLS itself that may be sent without a moment in which all is: 2,400 responses to KeyUpdates.
A client pays as many bytes for them, and nothing else bounds what they take in memory until the client reads them."""
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")
"""OpenSSL's reasons if the first bytes are not those of a TLS record."""
_READ_BYTES: Final = 16 * 1024
"""The plaintext of the largest TLS record."""


class UnreadMessages(ssl.SSLError):
    """A peer makes this side send messages of TLS itself, and reads none."""

    reason = ""
    """OpenSSL has none."""

    def __init__(self) -> None:
        super().__init__(0, "the peer reads no TLS messages")


class Handshakes:
    """The thread and the limits that the handshakes of a network share."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.loop = loop
        self.warnings = LogLimit(lambda: time.monotonic() * 1000)
        self.shares = DecryptionShares(loop.call_soon, self.warnings)
        self.accepted_in_progress = 0
        self.accepted: dict[TlsStream, None] = {}
        """The unfinished handshakes of accepted connections that are open, oldest first."""
        self.failures = 0
        self._executor: ThreadPoolExecutor | None = None
        self._reasons = LogLimit(lambda: time.monotonic() * 1000, MAX_REASONS)

    def run(self, step: Callable[[], None]) -> Future[None]:
        """Run one step of a handshake on the thread."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="tls")
        return self.loop.run_in_executor(self._executor, step)

    def admit(self, stream: TlsStream) -> None:
        """Count the handshake of an accepted connection. If there are too many, fail the oldest that waits for its
        client; that is this one if the thread has a step to do for every other."""
        self.accepted_in_progress += 1
        self.accepted[stream] = None
        if self.accepted_in_progress > MAX_HANDSHAKES:
            next(each for each in self.accepted if not each.is_working).fail("too many handshakes at once")

    def log_failure(self, peer: str, reason: str) -> None:
        """Log a failed handshake, at most once per interval and reason."""
        self.failures += 1
        suppressed = self._reasons.admit(reason)
        if suppressed is not None:
            logger.warning("TLS handshake with %s failed: %s (%d failed)", peer, reason, suppressed + 1)

    def log_unread(self, peer: str) -> None:
        """Log that a connection is aborted, at most once per interval."""
        text = f"aborting the connection with {peer}: it reads no TLS messages, and requests more"
        self.warnings.warn(connections, "unread TLS messages", text)

    def close(self) -> None:
        """End the thread after its current step."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)


class TlsStream:
    """One connection. Unless it is lost first, `start` leads to `on_established` or `on_failed(reason)`."""

    def __init__(
        self,
        context: ssl.SSLContext,
        handshakes: Handshakes,
        mapper: PrincipalMapper | None,
        server_name: str | None = None,
    ) -> None:
        """`mapper` maps the certificates of clients to principals; None for an outgoing connection.

        `server_name` is the host of an outgoing connection.
        """
        self.principal = ANONYMOUS
        self.is_established = False
        self.is_ended = False
        """Whether the peer has sent close_notify, and waits for that of this side."""
        self.has_more = False
        """Whether received records wait for the next turn, in which `receive(b"")` continues."""
        self._mapper = mapper
        self._handshakes = handshakes
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(
            self._incoming, self._outgoing, server_side=mapper is not None, server_hostname=server_name
        )
        self._received: list[bytes] = []
        """Ciphertext that arrived during a step of the handshake."""
        self._records = RecordQueue()
        """Ciphertext that arrived after the handshake."""
        self._handshake_bytes = 0
        self._unread_bytes = 0
        """Bytes of messages of TLS itself since all was sent."""
        self.is_working = False
        """Whether a step of the handshake is queued or running on the thread."""
        self._is_paused = False
        self._is_over = False
        self._timer: TimerHandle | None = None
        self._transport: Transport
        self._on_established: Callable[[], None]
        self._on_failed: Callable[[str], None]

    def start(
        self,
        transport: Transport,
        on_established: Callable[[], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """Begin the handshake. The next `receive` returns data that arrived together with its end."""
        self._transport, self._on_established, self._on_failed = transport, on_established, on_failed
        if self._mapper is not None:
            self._handshakes.admit(self)
            if self._is_over:
                return
        timeout = f"not complete within {HANDSHAKE_TIMEOUT_S:g} s"
        self._timer = self._handshakes.loop.call_later(HANDSHAKE_TIMEOUT_S, self.fail, timeout)
        if self._mapper is None:
            self._step()

    def receive(self, data: bytes) -> bytes:
        """Decrypt received ciphertext and return the plaintext of the records that this iteration may decrypt; see
        `has_more`. Raises ssl.SSLError."""
        if self.is_established:
            self._records.add(data)
            records, self.has_more = self._handshakes.shares.take(self._records)
            return self._decrypt(records) if records else b""
        if not self._is_over:
            self._received.append(data)
            if not self.is_working:
                self._step()
            elif not self._is_paused:
                # A client may send requests right after its last message of the handshake.
                self._is_paused = True
                self._transport.pause_reading()
        return b""

    @property
    def encrypted_bytes(self) -> int:
        """The number of received bytes that are not decrypted yet."""
        return len(self._records)

    def encrypt(self, data: bytes) -> bytes:
        """Return the ciphertext of the data. Raises ssl.SSLError."""
        view = memoryview(data)
        while view:
            view = view[self._ssl.write(view) :]
        return self._outgoing.read()

    def closing(self) -> bytes:
        """Return the close_notify message that ends the connection."""
        self._end()
        if self.is_established:
            # unwrap() raises until the peer has closed too, which no longer matters.
            with suppress(ssl.SSLError, OSError):
                self._ssl.unwrap()
            return self._outgoing.read()
        return b""

    def connection_lost(self) -> None:
        """Release the resources of the connection. Leaves no reference cycle for the garbage collector."""
        self._end()
        self._records = RecordQueue()
        del self._transport, self._on_established, self._on_failed

    def _decrypt(self, records: bytes) -> bytes:
        self._incoming.write(records)
        chunks = []
        try:
            while chunk := self._ssl.read(_READ_BYTES):
                chunks.append(chunk)
                if not (self._incoming.pending or self._ssl.pending()):
                    # These were whole records. Another read would raise, at the cost of a decryption.
                    break
            else:
                self.is_ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_ended = True
        if self._outgoing.pending:
            self._respond(self._outgoing.read())
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _respond(self, data: bytes) -> None:
        """Send messages of TLS itself. Raises UnreadMessages if the peer lets too many wait."""
        if self._transport.get_write_buffer_size() == 0:
            self._unread_bytes = 0
        self._unread_bytes += len(data)
        if self._unread_bytes > MAX_UNREAD_BYTES:
            raise UnreadMessages
        self._transport.write(data)

    def _step(self) -> None:
        """Continue the handshake with the received data."""
        self._take_received()
        self.is_working = True
        self._handshakes.run(self._continue).add_done_callback(self._on_step_done)

    def _continue(self) -> None:
        """Continue the handshake, on the thread."""
        if not self._is_over:
            self._ssl.do_handshake()

    def _take_received(self) -> None:
        for data in self._received:
            self._handshake_bytes += self._incoming.write(data)
        self._received.clear()

    def _on_step_done(self, step: Future[None]) -> None:
        self.is_working = False
        # Retrieve the exception even if the connection is gone: the loop logs those that are not retrieved.
        error = None if step.cancelled() else step.exception()
        if self._is_over:
            self._release()
        if self._is_over or step.cancelled():
            return
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())
        if error is not None and not isinstance(error, ssl.SSLWantReadError):
            self.fail(reason_of(error))
            return
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()
        if error is None:
            self._establish()
        elif self._handshake_bytes > MAX_HANDSHAKE_BYTES:
            self.fail("too much data before the handshake was complete")
        elif self._received:
            self._step()

    def _establish(self) -> None:
        if self._mapper is not None:
            certificate = self._ssl.getpeercert(binary_form=True)
            try:
                name = subject_of(certificate) if certificate is not None else None
                self.principal = self._mapper.principal(name)
            except (MalformedMessage, ValueError) as error:
                self.fail(str(error))
                return
        self._end()
        self._records.add(self._incoming.read())
        for data in self._received:
            self._records.add(data)
        self._received.clear()
        self.is_established = True
        self._on_established()

    def fail(self, reason: str) -> None:
        """End the handshake without success."""
        if not self._is_over:
            self._end()
            self._on_failed(reason)

    def _end(self) -> None:
        """End the handshake, successful or not."""
        if self._is_over:
            return
        self._is_over = True
        self._handshakes.accepted.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        if not self.is_working:
            self._release()

    def _release(self) -> None:
        """Stop counting the handshake, now that neither its connection nor the thread needs it."""
        if self._mapper is not None:
            self._handshakes.accepted_in_progress -= 1


def reason_of(error: BaseException) -> str:
    """Describe the reason of a failed handshake or of a broken stream."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate rejected: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        if error.reason in _NO_TLS:
            return "the peer does not use TLS"
        return str(error.reason).replace("_", " ").lower()
    return str(error) or type(error).__name__
