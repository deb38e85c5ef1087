"""An administrator of ACLs, quotas and credentials, and clients with only the rights that it grants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.access import DENIED, AccessIsAsGranted
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.environment.event_heap import Process, Scheduled
from quorumd.simulator.workload.access_requests import CLIENTS, TIMEOUT_MS, AccessRequests, access_request
from quorumd.simulator.workload.request_connection import RequestConnection

ADMINISTRATOR_HOST: Final = "10.0.12.1"
"""Its connections prove no principal: the anonymous one is a super user."""

Judge = Callable[[Message], None]


class AccessWorkload:
    """Each of them sends one request at a time to a random node, at a mean interval of `interval_ms` until `running`
    is False. Reports requests and responses to `checker`."""

    def __init__(
        self, cluster: Cluster, random: Random, interval_ms: float, checker: AccessIsAsGranted
    ) -> None:
        self.running = True
        self.counters: Counter[str] = Counter()
        self._checker = checker
        self._heap = cluster.heap
        self._requests = AccessRequests(random)
        cluster.network.principals |= {host: principal for principal, host in CLIENTS}
        drawers = [(ADMINISTRATOR_HOST, self._administer)]
        drawers += [(client[1], partial(self._use, client)) for client in CLIENTS]
        self._clients = [
            _Client(cluster, host, random, interval_ms, draw, lambda: self.running) for host, draw in drawers
        ]

    def start(self) -> None:
        for client in self._clients:
            client.start()

    def _administer(self) -> tuple[Message, int, Judge]:
        request, version = self._requests.change(list(self._checker.acls), self._heap.now_ms)
        requested = self._checker.requested(request, self._heap.now_ms)

        def judge(message: Message) -> None:
            name = type(request).__name__.removesuffix("Request")
            self.counters[f"{name}: {'error' if errors_in(message) else 'success'}"] += 1
            self._checker.responded(requested, message, self._heap.now_ms)

        return request, version, judge

    def _use(self, client: tuple[str, str]) -> tuple[Message, int, Judge]:
        requested_ms = self._heap.now_ms
        question = self._requests.question(client, requested_ms)
        request, version = access_request(question)

        def judge(message: Message) -> None:
            is_denied = any(code in DENIED for code, _ in errors_in(message))
            self.counters[f"access: {'denied' if is_denied else 'allowed'}"] += 1
            self._checker.decided(question, message, requested_ms)

        return request, version, judge


class _Client:
    """Sends the requests that `draw` returns, each with the judge of its response."""

    def __init__(
        self,
        cluster: Cluster,
        host: str,
        random: Random,
        interval_ms: float,
        draw: Callable[[], tuple[Message, int, Judge]],
        is_running: Callable[[], bool],
    ) -> None:
        self._heap = cluster.heap
        self._process = Process(f"access client at {host}")
        self._network = cluster.network.host(host, self._process)
        self._nodes = cluster.addresses()
        self._random = random
        self._interval_ms = interval_ms
        self._draw = draw
        self._is_running = is_running
        self._link: RequestConnection | None = None
        self._timer: Scheduled | None = None

    def start(self) -> None:
        if self._is_running():
            wait_ms = self._random.random() * 2 * self._interval_ms
            self._heap.call_later(wait_ms, self._send, b"access", self._process)

    def _send(self) -> None:
        if not self._is_running():
            return
        request, version, judge = self._draw()
        done = partial(self._on_response, judge)
        self._timer = self._heap.call_later(TIMEOUT_MS, partial(done, None), b"timeout", self._process)
        self._link = RequestConnection("access", request, version, done)
        self._network.connect(*self._random.choice(self._nodes), self._link)

    def _on_response(self, judge: Judge, message: Message | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._link is not None:
            self._link.abandon()
        if message is not None:
            judge(message)
        self.start()
