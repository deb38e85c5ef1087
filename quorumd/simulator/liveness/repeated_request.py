"""Requests to one node that are repeated until the response is as expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorumd.protocol.wire import Message
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.workload.request_connection import RequestConnection

WITHIN_MS: Final = 5000.0
"""A node that follows a leader applies the last records, and forwards a request, within this time."""
CHECK_INTERVAL_MS: Final = 20.0
RETRY_MS: Final = 500.0


class RepeatedRequests:
    """Sends requests once faults have ended, and raises InvariantViolation if the response is not as expected in
    time."""

    def __init__(self, cluster: Cluster, invariant: str, run_until: Callable[[float], None]) -> None:
        self._cluster = cluster
        self._invariant = invariant
        self._run_until = run_until
        self._process = Process("last reads")
        self._link: RequestConnection | None = None
        self._missing = ""

    def require(
        self,
        host: str,
        address: tuple[str, int],
        request: Message,
        version: int,
        missing: Callable[[Message, float], str],
    ) -> None:
        """Require a response for which `missing(response, requested_ms)` returns "". Raises InvariantViolation."""
        heap = self._cluster.heap
        deadline_ms, next_ms = heap.now_ms + WITHIN_MS, heap.now_ms
        self._missing = "no response"
        while self._missing:
            if heap.now_ms >= deadline_ms:
                name = type(request).__name__
                raise InvariantViolation(self._invariant, f"{name} to {address[0]}: {self._missing}")
            if heap.now_ms >= next_ms:
                next_ms = heap.now_ms + RETRY_MS
                self._send(host, address, request, version, missing)
            self._run_until(heap.now_ms + CHECK_INTERVAL_MS)

    def _send(
        self,
        host: str,
        address: tuple[str, int],
        request: Message,
        version: int,
        missing: Callable[[Message, float], str],
    ) -> None:
        if self._link is not None:
            self._link.abandon()
        requested_ms = self._cluster.heap.now_ms

        def on_response(message: Message | None) -> None:
            if message is not None:
                self._missing = missing(message, requested_ms)

        self._link = RequestConnection("last reads", request, version, on_response)
        self._cluster.network.host(host, self._process).connect(*address, self._link)
