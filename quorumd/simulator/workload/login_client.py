"""Clients that log in, use delegation tokens, and make mistakes; an administrator changes their passwords."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from quorumd.protocol.messages import alter_user_scram_credentials_request as wire
from quorumd.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
from quorumd.protocol.wire import Message
from quorumd.security.sasl import scram
from quorumd.simulator.checkers.access import AccessIsAsGranted
from quorumd.simulator.checkers.administered_register import Register
from quorumd.simulator.checkers.logins import LoginsAreAuthentic
from quorumd.simulator.client_listener import PASSWORDS, PORT, USERS, salt_of, salted
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.workload.connection_loop import ClientSide, ConnectionLoop
from quorumd.simulator.workload.conversation import Conversation, Script
from quorumd.simulator.workload.login_scripts import LoginScripts
from quorumd.simulator.workload.request_loop import Drawn, RequestLoop

ADMINISTRATOR_HOST: Final = "10.0.14.1"
"""Its connections are not authenticated: the anonymous principal is a super user."""
NAME: Final = "login"


class LoginWorkload:
    """The administrator of passwords, and a client per user. Each opens one connection at a time to a random node, at
    a mean interval of `interval_ms`, until `stop`. `checker` gets what they request and receive, `granted` the rights
    that they use."""

    def __init__(
        self,
        cluster: Cluster,
        random: Random,
        interval_ms: float,
        checker: LoginsAreAuthentic,
        granted: AccessIsAsGranted,
    ) -> None:
        self._administrator = PasswordAdministrator(cluster, random, interval_ms, checker)
        scripts = LoginScripts(cluster, random, checker, granted)
        self._clients = [
            LoginClient(cluster, f"10.0.15.{number}", random, interval_ms, user, scripts.session)
            for number, user in enumerate(USERS, 1)
        ]

    def start(self) -> None:
        self._administrator.start()
        for client in self._clients:
            client.start()

    def stop(self) -> None:
        self._administrator.running = False
        for client in self._clients:
            client.running = False


class PasswordAdministrator(RequestLoop):
    """Sets and removes passwords of users for SCRAM."""

    def __init__(
        self, cluster: Cluster, random: Random, interval_ms: float, checker: LoginsAreAuthentic
    ) -> None:
        super().__init__(cluster, ADMINISTRATOR_HOST, NAME, random, interval_ms)
        self._checker = checker

    def draw(self) -> Drawn:
        """Draw a change, and a node."""
        random = self._random
        user, mechanism, number = random.choice(USERS), random.choice(scram.MECHANISMS), None
        request = wire.AlterUserScramCredentialsRequest([], [])
        if random.random() < 0.2:
            request.deletions.append(wire.ScramCredentialDeletion(user, mechanism.type))
        else:
            number = random.randrange(PASSWORDS)
            password = salted(mechanism.name, user, number)
            request.upsertions.append(
                wire.ScramCredentialUpsertion(
                    user, mechanism.type, scram.MIN_ITERATIONS, salt_of(user, number), password
                )
            )
        register = self._checker.password_of(mechanism.name, user)
        return Drawn(request, 0, random.choice(self._nodes), self._recorder(register, number))

    def _recorder(self, register: Register, number: int | None) -> Callable[[Message | None], None]:
        write = register.write(number, self._heap.now_ms)

        def record(message: Message | None) -> None:
            if isinstance(message, AlterUserScramCredentialsResponse):
                (result,) = message.results
                self._checker.password_changed(register, write, result.error_code, self._heap.now_ms)

        return record


class LoginClient(ConnectionLoop):
    """Runs the scripts that `draw` returns for a user."""

    def __init__(
        self,
        cluster: Cluster,
        host: str,
        random: Random,
        interval_ms: float,
        user: str,
        draw: Callable[[str, Machine], Script],
    ) -> None:
        super().__init__(cluster, host, NAME, random, interval_ms)
        self._user = user
        self._draw = draw

    def make(self, machine: Machine, on_end: Callable[[], None]) -> tuple[int, ClientSide]:
        """Draw a script."""
        script = self._draw(self._user, machine)
        return PORT, Conversation(self._heap, self._process, NAME, script, on_end)
