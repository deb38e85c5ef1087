"""The HTTP endpoint: /metrics for Prometheus, /healthz and /readyz for orchestrators and monitoring.

It runs in threads of its own, so that a scrape does not block the event thread.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import NamedTuple

from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

logger = logging.getLogger(__name__)

CLIENT_TIMEOUT_S = 5.0
POLL_INTERVAL_S = 0.1
"""Upper bound of the time that closing takes."""


class ProbeResult(NamedTuple):
    """Response to /healthz or /readyz: status 200 if `ok`, else 503, with `text` as the body."""

    ok: bool
    text: str


class HttpEndpoint:
    """Binds when created, raising OSError if the address is in use; serves from `start` to `close`."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._server = _Server(address, BaseHTTPRequestHandler)

    @property
    def port(self) -> int:
        """The port it is bound to."""
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


class _Server(ThreadingTCPServer):
    # Instead of http.server's own class, which looks up the host name and may block.
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def handle_error(self, request: object, client_address: object) -> None:
        logger.debug("an HTTP client went away or failed", exc_info=True)
