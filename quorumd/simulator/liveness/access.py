"""Requests of every client through every node once faults have ended, which nodes must decide as granted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from quorumd.protocol.wire import Message
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.checkers.access import AccessIsAsGranted, Question
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.liveness.repeated_request import RepeatedRequests
from quorumd.simulator.workload.access_client import ADMINISTRATOR_HOST
from quorumd.simulator.workload.access_requests import CLIENTS, LISTS, AccessRequests, access_request

QUESTIONS: Final = 12
"""Number of requests per node."""


class LastRights:
    """Lists the settings of the administrator and sends requests of clients, through every running node."""

    def __init__(
        self,
        cluster: Cluster,
        checker: AccessIsAsGranted,
        random: Random,
        run_until: Callable[[float], None],
    ) -> None:
        self._cluster = cluster
        self._checker = checker
        self._random = random
        self._began_ms = cluster.heap.now_ms
        self._draws = AccessRequests(random)
        self._requests = RepeatedRequests(cluster, checker.invariant, run_until)

    def require(self) -> None:
        """Request through every node. Raises InvariantViolation."""
        for machine in self._cluster.running():
            address = (machine.host, machine.port)
            for request, version in LISTS:
                self._requests.require(ADMINISTRATOR_HOST, address, request, version, self._unlisted)
            for _ in range(QUESTIONS):
                question = self._question()
                request, version = access_request(question)
                decided = partial(self._undecided, question)
                self._requests.require(question.host, address, request, version, decided)

    def _question(self) -> Question:
        """Draw a request about names of any generation."""
        client = self._random.choice(CLIENTS)
        return self._draws.question(client, self._random.random() * self._began_ms)

    def _unlisted(self, message: Message, requested_ms: float) -> str:
        return difference(lambda: self._checker.listed(message, requested_ms, self._cluster.heap.now_ms))

    def _undecided(self, question: Question, message: Message, requested_ms: float) -> str:
        return difference(lambda: self._checker.settled(question, message, requested_ms))


def difference(check: Callable[[], None]) -> str:
    """Return the violation that a check raises, "" if it passes. A violation may be temporary, while a node applies
    the last committed records."""
    try:
        check()
    except InvariantViolation as violation:
        return violation.text
    return ""
