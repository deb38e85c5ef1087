"""The HTTP endpoint: /metrics for Prometheus, /healthz and /readyz for orchestrators and monitoring.

It runs on separate threads, so that a scrape does not block the event thread. The number of clients is limited: a
further one replaces the one that has been connected longest.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from socketserver import ThreadingTCPServer
from threading import Lock, Thread
from typing import Final, NamedTuple, cast

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from quorumd.runtime.descriptors import NO_LIMIT, DescriptorLimit

logger = logging.getLogger(__name__)

MAX_CLIENTS: Final = 16
MAX_THREADS: Final = 64
"""A thread whose client was replaced runs until it has built the response."""
CLIENT_TIMEOUT_S = 5.0
MAX_REQUEST_BYTES: Final = 16 * 1024
"""The standard library would accept a hundred headers of 64 KiB, and need several times that in memory per client."""
POLL_INTERVAL_S = 0.1
"""Upper bound of the time that `close` takes."""


class ProbeResult(NamedTuple):
    """The response to /healthz or /readyz: status 200 if `ok`, else 503, with `text` as the body."""

    ok: bool
    text: str


class HttpEndpoint:
    """Binds its address when created, which raises OSError if that is in use, and serves from `start` to `close`."""

    def __init__(self, address: tuple[str, int], descriptors: DescriptorLimit = NO_LIMIT) -> None:
        self._server = _Server(address, BaseHTTPRequestHandler)
        self._server.descriptors = descriptors

    @property
    def port(self) -> int:
        """The bound port."""
        return int(self._server.server_address[1])

    def start(
        self,
        registry: CollectorRegistry,
        health: Callable[[], ProbeResult],
        readiness: Callable[[], ProbeResult],
    ) -> None:
        """Start serving the metrics of the registry and the probes."""
        reports = {"/healthz": health, "/readyz": readiness}

        class Handler(BaseHTTPRequestHandler):
            timeout = CLIENT_TIMEOUT_S

            def setup(self) -> None:
                super().setup()
                self.rfile = cast(BufferedIOBase, _BoundedLines(self.rfile))

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == "/metrics":
                    encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                    self._respond(200, content_type, encode(registry))
                elif path in reports:
                    report = reports[path]()
                    self._respond(
                        200 if report.ok else 503, "text/plain; charset=utf-8", f"{report.text}\n".encode()
                    )
                else:
                    self._respond(404, "text/plain; charset=utf-8", b"/metrics /healthz /readyz\n")

            def log_message(self, format: str, *args: object) -> None:
                logger.debug("%s " + format, self.client_address[0], *args)

            def _respond(self, status: int, content_type: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server.RequestHandlerClass = Handler
        Thread(target=self._server.serve_forever, args=(POLL_INTERVAL_S,), name="http", daemon=True).start()

    def close(self) -> None:
        """Stop serving requests."""
        self._server.shutdown()
        self._server.server_close()


class _BoundedLines:
    """A file for reading one request, with at most MAX_REQUEST_BYTES in all lines together."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self._remaining = MAX_REQUEST_BYTES

    def readline(self, size: int) -> bytes:
        """Return the next line. Raises OSError if the request is too long."""
        line = self._file.readline(min(size, self._remaining + 1))
        self._remaining -= len(line)
        if self._remaining < 0:
            raise OSError("the request is too long")
        return line

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Server(ThreadingTCPServer):
    # http.server's own class looks up the host name, which may block.
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128
    descriptors = NO_LIMIT

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._clients: dict[socket.socket, None] = {}
        """The clients being served, in the order of their arrival."""
        self._running = 0
        self._lock = Lock()
        super().__init__(address, handler)

    def process_request(self, request: object, client_address: object) -> None:
        """Serve a client on a thread, and disconnect the oldest client if there are too many."""
        assert isinstance(request, socket.socket)
        # Probes must not fail because other clients use all descriptors: the node would be restarted.
        is_admitted = self.descriptors.admits(request.fileno(), uses_reserve=True)
        if not is_admitted or self._running >= MAX_THREADS:
            self.shutdown_request(request)
            return
        with self._lock:
            self._running += 1
            if len(self._clients) >= MAX_CLIENTS:
                oldest = next(iter(self._clients))
                del self._clients[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # Its thread then ends, and closes it.
            self._clients[request] = None
        super().process_request(request, client_address)

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Serve a client on this thread."""
        assert isinstance(request, socket.socket)
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._running -= 1

    def shutdown_request(self, request: object) -> None:
        """Close the connection of a client."""
        assert isinstance(request, socket.socket)
        with self._lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        logger.debug("an HTTP client disconnected or failed", exc_info=True)
