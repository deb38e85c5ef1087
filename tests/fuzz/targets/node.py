"""Simulated nodes with hostile clients: a node responds or closes the connection, and continues to run."""

from __future__ import annotations

from functools import cache

from quorumd.errors import MalformedMessage
from quorumd.log import LogSettings
from quorumd.protocol.apis import APIS
from quorumd.protocol.codec import encode
from quorumd.protocol.framing import FrameReader
from tests.fuzz.target import Parse, Target
from tests.fuzz.targets.wire import MAX_FRAME, framed, request_frames
from tests.support.node.nodes import Client, Cluster
from tests.support.node.sample_requests import full_request

TURN_MS = 5.0
"""The simulated time of a node for one input."""


@cache
def _requests() -> list[bytes]:
    """Return realistic requests, and requests with random content."""
    found = []
    for key, api in APIS.items():
        for version in range(api.min_version, api.max_version + 1):
            tags = b"\x00" if api.is_flexible(version) else b""
            head = b"".join(n.to_bytes(size, "big") for n, size in ((key, 2), (version, 2), (7, 4), (4, 2)))
            found.append(framed(head, b"fuzz", tags, encode(full_request(key, version), version)))
    return found * 3 + request_frames()


class _Stranger(Client):
    """A client that ignores responses."""

    def received(self, data: bytes) -> None:
        pass


def _ends_with_a_frame(data: bytes) -> bool:
    reader = FrameReader(MAX_FRAME)
    try:
        reader.feed(data)
    except MalformedMessage:
        return True
    return reader.buffered_bytes == 0


def _make_send(voters: int, leader: bool) -> Parse:
    cluster = Cluster(voters, log=LogSettings(allocate_bytes=0)).start()
    request = cluster.leader() if leader else cluster.follower()
    node_id = request.settings.node_id
    connections: list[_Stranger] = []

    def send(data: bytes) -> None:
        if not connections or connections[-1].is_closed:
            connections[:] = [_Stranger(cluster, node_id, "stranger")]
        connections[-1].send_bytes(data)
        cluster.run(TURN_MS)
        if not _ends_with_a_frame(data):
            connections[-1].close()  # otherwise the next input would continue the unfinished frame
            connections[-1].is_closed = True
        assert not cluster.exits, cluster.exits

    return send


TARGETS = (
    Target("one node", 0.5, _requests, lambda: _make_send(1, True), (), takes_large=False, repeats=False),
    Target(
        "leader of three", 0.25, _requests, lambda: _make_send(3, True), (), takes_large=False, repeats=False
    ),
    Target(
        "follower of three",
        0.25,
        _requests,
        lambda: _make_send(3, False),
        (),
        takes_large=False,
        repeats=False,
    ),
)
