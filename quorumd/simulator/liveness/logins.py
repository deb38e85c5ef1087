"""Logins through every node once faults have ended, with every credential and token that may be valid."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from quorumd.protocol.messages.describe_delegation_token_response import DescribeDelegationTokenResponse
from quorumd.security.sasl import scram
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.checkers.access import AccessIsAsGranted
from quorumd.simulator.checkers.logins import KnownToken, LoginsAreAuthentic
from quorumd.simulator.client_listener import PASSWORDS, PORT, USERS
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.workload.conversation import Conversation, Script
from quorumd.simulator.workload.login_scripts import TOKENS_VERSION, LoginScripts, describe_request

HOST: Final = "10.0.15.9"
WITHIN_MS: Final = 5000.0
"""A node that follows a leader applies the last records within this time."""
ATTEMPT_MS: Final = 500.0
CHECK_INTERVAL_MS: Final = 20.0
MAX_TOKENS: Final = 6
"""Number of tokens with which clients log in, per node."""


class LastLogins:
    """Logs in at every running node, and lists all tokens."""

    def __init__(
        self,
        cluster: Cluster,
        checker: LoginsAreAuthentic,
        granted: AccessIsAsGranted,
        random: Random,
        run_until: Callable[[float], None],
    ) -> None:
        self._cluster = cluster
        self._checker = checker
        self._random = random
        self._run_until = run_until
        self._scripts = LoginScripts(cluster, random, checker, granted)
        self._process = Process("last logins")
        self._network = cluster.network.host(HOST, self._process)
        self._violation = ""

    def require(self) -> None:
        """Log in at every node. Raises InvariantViolation."""
        tokens = list(self._checker.tokens.values())
        for machine in self._cluster.running():
            for user in USERS:
                self._repeat(machine, partial(self._list, user))
                for mechanism in scram.BY_NAME:
                    number = self._random.randrange(PASSWORDS)
                    self._repeat(machine, partial(self._log_in, mechanism, user, number))
            for token in self._random.sample(tokens, min(MAX_TOKENS, len(tokens))):
                self._repeat(machine, partial(self._use, token, machine))

    def _list(self, user: str) -> Script:
        result = yield from self._scripts.plain_login(user, is_right=True)
        requested_ms, walls_ms = self._cluster.heap.now_ms, self._walls_ms()
        response = (yield describe_request(None), TOKENS_VERSION) if result is not None else None
        if not isinstance(response, DescribeDelegationTokenResponse) or response.error_code:
            self._checker.refuse(f"{user} gets no list of tokens: {response!r}")
            return
        sees_all = not self._cluster.options.access_ms
        self._checker.settled_list(response.tokens, f"User:{user}", sees_all, requested_ms, walls_ms)

    def _log_in(self, mechanism: str, user: str, number: int) -> Script:
        requested_ms = self._cluster.heap.now_ms
        result = yield from self._scripts.scram_login(mechanism, user, number)
        if result is None:
            self._checker.refuse(f"{user} gets no response to a login")
        else:
            self._checker.settled_login(mechanism, user, number, not result.error, requested_ms)

    def _use(self, token: KnownToken, machine: Machine) -> Script:
        requested_ms, walls_ms = self._cluster.heap.now_ms, self._walls_ms()
        result = yield from self._scripts.token_login(token, True, machine)
        if result is None:
            self._checker.refuse(f"no response to a login with {token.id}")
        else:
            self._checker.settled_token_login(token, not result.error, requested_ms, walls_ms)

    def _walls_ms(self) -> list[float]:
        """The Unix time of every machine."""
        now_ms = self._cluster.heap.now_ms
        times = [machine.time for machine in self._cluster.machines.values()]
        return [time.wall_offset_ms + now_ms * time.rate for time in times]

    def _repeat(self, machine: Machine, make: Callable[[], Script]) -> None:
        """Run a script until it finds no violation. A violation may be temporary, while the node applies the last
        committed records. Raises InvariantViolation."""
        heap = self._cluster.heap
        deadline_ms, self._violation = heap.now_ms + WITHIN_MS, "no response"
        while self._violation:
            if heap.now_ms >= deadline_ms:
                raise InvariantViolation(
                    self._checker.invariant, f"node {machine.node_id}: {self._violation}"
                )
            attempt = _Attempt()
            conversation = Conversation(
                heap, self._process, "last login", self._judged(make()), attempt.ended
            )
            self._network.connect(machine.host, PORT, conversation)
            until_ms = heap.now_ms + ATTEMPT_MS
            while not attempt.is_over and heap.now_ms < until_ms:
                self._run_until(heap.now_ms + CHECK_INTERVAL_MS)
            conversation.abandon()

    def _judged(self, script: Script) -> Script:
        """Run a script; record the violation that it finds, "" for none."""
        self._violation = "no response"
        try:
            yield from script
            self._violation = ""
        except InvariantViolation as violation:
            self._violation = violation.text


class _Attempt:
    """Whether a conversation has ended."""

    def __init__(self) -> None:
        self.is_over = False

    def ended(self) -> None:
        self.is_over = True
