"""The knowledge of an attacker, which any client can obtain, and its connections and frames."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from quorumd.ids import KafkaUuid
from quorumd.protocol.apis import ApiKey, response_class, response_header_version
from quorumd.protocol.codec import decode
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from quorumd.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from quorumd.protocol.wire import Message

Address = tuple[str, int]

TIMEOUT_S = 5.0
SIZE = struct.Struct(">i")
STRANGER = 99
"""A node id that is not in the voter set."""
HUGE_TOPIC = "huge"
HUGE_PARTITIONS = 10_000


@dataclass
class Target:
    """The knowledge of an attacker: what any client learns from DescribeQuorum, DescribeCluster and Metadata."""

    nodes: dict[int, Address]
    http: list[Address]
    clients: list[Address]
    """The listeners of brokers."""
    leader: int
    epoch: int
    cluster_id: str
    directories: dict[int, KafkaUuid]
    end_offset: int
    seconds: float
    """The duration of the attack."""
    tls: list[Address] = field(default_factory=list)
    """The TLS listeners of the nodes, for clients with a certificate."""
    open_tls: list[Address] = field(default_factory=list)
    """The listeners of the nodes with TLS and SASL."""
    sasl: list[Address] = field(default_factory=list)
    """The SASL listeners of the nodes."""
    optional_tls: list[Address] = field(default_factory=list)
    """The TLS listeners of the nodes at which clients may have a certificate."""
    certificates: str = ""
    """The directory of the authority that the nodes trust, which issued a certificate for the attacker too."""
    down: list[int] = field(default_factory=list)
    """Voters that have been stopped."""

    @property
    def leader_address(self) -> Address:
        return self.nodes[self.leader]

    @property
    def running(self) -> list[int]:
        return [node_id for node_id in self.nodes if node_id not in self.down]

    def deadline(self) -> Iterator[float]:
        """Yield the remaining seconds, and stop at the end of the attack."""
        end = time.monotonic() + self.seconds
        while (left := end - time.monotonic()) > 0:
            yield left


class Peer:
    """A blocking connection of an attacker. Every method may raise OSError."""

    def __init__(self, address: Address, receive_buffer: int = 0) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(address)
        self._client = ClientConnection("attacker")

    def frame(self, message: Message, version: int) -> bytes:
        """Encode a request."""
        return bytes(self._client.request(message, version)[1])

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(frames))

    def request(self, message: Message, version: int) -> Message:
        """Send a request and return its response."""
        self.send(self.frame(message, version))
        return self.response(message, version)

    def response(self, message: Message, version: int) -> Message:
        """Read the next response."""
        payload = self.read_frame()
        assert message.API_KEY is not None
        position = 4
        if message.API_KEY != ApiKey.API_VERSIONS and response_header_version(message.API_KEY, version):
            position = 5
        return decode(response_class(message.API_KEY), version, payload, position)

    def read_frame(self) -> bytes:
        (size,) = SIZE.unpack(self._read(SIZE.size))
        return self._read(size)

    def _read(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            chunk = self.socket.recv(min(1 << 20, length - len(data)))
            if not chunk:
                raise ConnectionResetError("closed by the node")
            data += chunk
        return bytes(data)

    def close(self) -> None:
        self.socket.close()


def log_in(peer: Peer, user: str = "alice") -> None:
    """Authenticate as alice, who has no rights, or as admin, who has all."""
    peer.request(SaslHandshakeRequest("PLAIN"), 1)
    peer.request(SaslAuthenticateRequest(f"\0{user}\0secret".encode()), 2)


def send_everywhere(target: Target, messages: Iterable[tuple[Message, int]]) -> None:
    """Send requests to every running node, and ignore errors and responses."""
    requests = list(messages)
    for node_id in target.running:
        with suppress(OSError):
            peer = Peer(target.nodes[node_id])
            for message, version in requests:
                peer.send(peer.frame(message, version))
            with suppress(OSError, ValueError):
                for message, version in requests:
                    peer.response(message, version)
            peer.close()
