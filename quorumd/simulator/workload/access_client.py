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
from quorumd.simulator.workload.access_requests import CLIENTS, AccessRequests, access_request
from quorumd.simulator.workload.request_loop import Drawn, RequestLoop

ADMINISTRATOR_HOST: Final = "10.0.12.1"
"""Its connections are not authenticated: the anonymous principal is a super user."""

NAME: Final = "access"

_Request = tuple[Message, int, Callable[[Message], None]]
"""A request, its version, and the check of the response."""


class AccessWorkload:
    """The administrator and its clients. Each sends one request at a time to a random node, at a mean interval of
    `interval_ms`, until `stop`. Requests and responses are reported to `checker`."""

    def __init__(
        self, cluster: Cluster, random: Random, interval_ms: float, checker: AccessIsAsGranted
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._checker = checker
        self._heap = cluster.heap
        self._requests = AccessRequests(random)
        cluster.network.principals |= {host: principal for principal, host in CLIENTS}
        drawers = [(ADMINISTRATOR_HOST, self._administer)]
        drawers += [(client[1], partial(self._use, client)) for client in CLIENTS]
        self._clients = [_Client(cluster, host, random, interval_ms, draw) for host, draw in drawers]

    def start(self) -> None:
        for client in self._clients:
            client.start()

    def stop(self) -> None:
        for client in self._clients:
            client.running = False

    def _administer(self) -> _Request:
        request, version = self._requests.change(list(self._checker.acls), self._heap.now_ms)
        requested = self._checker.requested(request, self._heap.now_ms)

        def judge(message: Message) -> None:
            name = type(request).__name__.removesuffix("Request")
            self.counters[f"{name}: {'error' if errors_in(message) else 'success'}"] += 1
            self._checker.responded(requested, message, self._heap.now_ms)

        return request, version, judge

    def _use(self, client: tuple[str, str]) -> _Request:
        requested_ms = self._heap.now_ms
        question = self._requests.question(client, requested_ms)
        request, version = access_request(question)

        def judge(message: Message) -> None:
            is_denied = any(code in DENIED for code, _ in errors_in(message))
            self.counters[f"access: {'denied' if is_denied else 'allowed'}"] += 1
            self._checker.decided(question, message, requested_ms)

        return request, version, judge


class _Client(RequestLoop):
    """Sends the requests that a workload draws for it."""

    def __init__(
        self, cluster: Cluster, host: str, random: Random, interval_ms: float, draw: Callable[[], _Request]
    ) -> None:
        super().__init__(cluster, host, NAME, random, interval_ms)
        self._draw = draw

    def draw(self) -> Drawn:
        """Draw a request, and a node."""
        request, version, judge = self._draw()

        def handle(message: Message | None) -> None:
            if message is not None:
                judge(message)

        return Drawn(request, version, self._random.choice(self._nodes), handle)
