"""SASL between the nodes of a run, and the login of its clients, which connect to the same listeners.

The logins of nodes expire, and nodes renew them on the same connection (KIP-368). Clients log in with the other
mechanism, once per connection: `LoginConnection` does that for clients that do not expect it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from quorumd.errors import AuthenticationFailed
from quorumd.ports import Connection, Transport
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.handshake import Handshake, SaslClient
from quorumd.security.sasl.exchange import Proof, user
from quorumd.security.sasl.oauth_bearer import OAUTHBEARER
from quorumd.security.sasl.plain import PLAIN
from quorumd.security.sasl.settings import ClientSasl, ListenerSasl, ServerSasl

if TYPE_CHECKING:
    from quorumd.simulator.environment.event_heap import Process

MECHANISMS: Final = (PLAIN, OAUTHBEARER)
NODE: Final = "node"
CLIENT: Final = "client"
PASSWORDS: Final = {NODE: "node-secret", CLIENT: "client-secret"}
_SEPARATOR: Final = "."
_NEVER: Final = 0


@dataclass(frozen=True, slots=True)
class PeerLogins:
    """How nodes log in to each other; no SASL without a mechanism."""

    mechanism: str = ""
    session_ms: int = 0
    """How long the login of a node is valid."""
    failure_delay_ms: int = 0
    """Delay of the response to a failed login (connection.failed.authentication.delay.ms)."""

    def of_node(
        self, users: Mapping[str, str], now_ms: Callable[[], float], wall_ms: Callable[[], int]
    ) -> ListenerSasl:
        """The SASL settings of a node with the clock `wall_ms` that accepts `users`. Tokens expire by `now_ms`, the
        clock of their issuer."""
        limits = {PLAIN: self.session_ms} if self.mechanism == PLAIN else {}
        server = ServerSasl(MECHANISMS, users, _TokenValidator(users, now_ms, wall_ms), limits)
        return ListenerSasl(server, _client(self.mechanism, NODE, lambda: int(now_ms()) + self.session_ms))

    def new_client(self) -> SaslClient:
        """Begin the login of a client, which does not expire."""
        mechanism = OAUTHBEARER if self.mechanism == PLAIN else PLAIN
        return _client(mechanism, CLIENT, lambda: _NEVER).new_client("")


class Machine(Protocol):
    """A machine with a node."""

    host: str
    process: Process | None


class ClientLogins:
    """Lets clients log in to nodes; nodes do so themselves."""

    def __init__(self, logins: PeerLogins, machines: Mapping[int, Machine]) -> None:
        self._logins = logins
        self._machines = machines

    def wrap(self, connection: Connection, process: Process | None, host: str) -> Connection:
        """Wrap a connection that a process opens to a host; see `SimulatedNetwork.wrap`."""
        machines = self._machines.values()
        is_of_node = process is not None and any(machine.process is process for machine in machines)
        if is_of_node or all(machine.host != host for machine in machines):
            return connection
        return LoginConnection(connection, self._logins)


class LoginConnection:
    """Logs in, and is then the connection of a client that does not know of it; satisfies `ports.Connection`."""

    def __init__(self, client: Connection, logins: PeerLogins) -> None:
        self._client = client
        self._connection = ClientConnection("login")
        self._handshake = Handshake(self._connection, logins.new_client)
        self._transport: Transport | None = None
        self._is_complete = False

    def connected(self, transport: Transport) -> None:
        self._transport = transport
        transport.write(self._handshake.begin())

    def received(self, data: bytes) -> None:
        if self._is_complete:
            self._client.received(data)
            return
        assert self._transport is not None
        for _, response in self._connection.receive(data):
            following = self._handshake.handle_response(response)
            if following is not None:
                self._transport.write(following)
            else:
                self._is_complete = True
                self._client.connected(self._transport)

    def closed(self, reason: str, refused: bool) -> None:
        self._client.closed(reason, refused)


class _TokenValidator:
    """Accepts the tokens of `users`: the name and the time at which the token expires."""

    def __init__(
        self, users: Mapping[str, str], now_ms: Callable[[], float], wall_ms: Callable[[], int]
    ) -> None:
        self._users = users
        self._now_ms = now_ms
        self._wall_ms = wall_ms

    def validate(self, token: str) -> Proof:
        name, _, text = token.partition(_SEPARATOR)
        if name not in self._users:
            raise AuthenticationFailed(f"{name} is unknown")
        expires_ms = int(text)
        if expires_ms == _NEVER:
            return Proof(user(name))
        remaining_ms = expires_ms - self._now_ms()
        if remaining_ms <= 0:
            raise AuthenticationFailed("the token has expired")
        return Proof(user(name), self._wall_ms() + int(remaining_ms))


def _client(mechanism: str, name: str, expires_ms: Callable[[], int]) -> ClientSasl:
    return ClientSasl(
        mechanism, name, PASSWORDS[name], bearer_token=lambda: f"{name}{_SEPARATOR}{expires_ms()}"
    )
