"""A stranger that knows everything about the quorum and forges requests of its peers.

It sends only requests that must be harmless without authentication (docs/verification.md): requests with another
cluster id, in an epoch that has a leader, in a newer epoch to a node whose leader is alive, or from ids or directory
ids that are not in the voter set; fetches in the name of voters without the token of the epoch; addresses of voters
that do not respond; requests about unknown nodes; malformed requests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple

from quorumd.ids import Endpoint, KafkaUuid, OffsetAndEpoch, ReplicaKey
from quorumd.node.node import Node
from quorumd.node.wire.fetch_messages import fetch_to_wire, stock_fetch_to_wire
from quorumd.node.wire.quorum_messages import begin_to_wire, end_to_wire, vote_to_wire
from quorumd.node.wire.snapshot_messages import snapshot_request_to_wire
from quorumd.ports import Transport
from quorumd.protocol.connection import ClientConnection
from quorumd.protocol.messages.discover_brokers_request import DiscoverBrokersRequest
from quorumd.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from quorumd.protocol.messages.update_raft_voter_request import Listener, UpdateRaftVoterRequest
from quorumd.protocol.wire import Message
from quorumd.raft.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    FetchRequest,
    SnapshotRequest,
    VoteRequest,
)
from quorumd.raft.replica import MAX_EPOCH
from quorumd.simulator.cluster import LISTENER_NAME, Cluster, Machine
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.faults.base import RunningNodeFault

HOST = "10.0.9.1"
STRANGERS = range(900, 904)
MAX_REQUESTS = 8
VOTE_VERSION, BEGIN_VERSION, END_VERSION, FETCH_VERSION, SNAPSHOT_VERSION = 2, 1, 1, 17, 1


class Forged(NamedTuple):
    """A forged request in one of its versions."""

    request: Message
    version: int


class Knowledge(NamedTuple):
    """The basis of a forged request: its receiver, the cluster id, the replica that it claims to come from, and the
    epoch."""

    node: Node
    cluster_id: str | None
    key: ReplicaKey
    epoch: int


class HostilePeer(RunningNodeFault):
    """Forged requests to one node over one connection."""

    name = "hostile peer"

    def hurt(self, cluster: Cluster, random: Random, machine: Machine) -> None:
        stranger = Stranger(partial(self._frames, cluster, random, machine))
        cluster.network.host(HOST, Process("stranger")).connect(machine.host, machine.port, stranger)

    def _frames(self, cluster: Cluster, random: Random, machine: Machine) -> list[bytes]:
        """Forge the requests once connected: a connection belongs to one incarnation, whose epoch only grows."""
        node = machine.node
        if node is None or machine.starting or node.cluster_id is None:
            return []
        connection, frames = ClientConnection("stranger"), []
        for _ in range(1 + random.randrange(MAX_REQUESTS)):
            forged = self._forge(random, node)
            frame = bytes(connection.request(*forged)[1])
            is_malformed = random.random() < 0.15
            frames.append(_malformed(random, frame) if is_malformed else frame)
            cluster.counters[f"forged: {'malformed' if is_malformed else forged.request.NAME}"] += 1
        return frames

    def _forge(self, random: Random, node: Node) -> Forged:
        voters = [voter.key for voter in node.engine.voters.current.voters]
        epoch = node.engine.epoch
        if random.random() < 0.35:
            # Another cluster id, although everything else is correct.
            cluster_id = str(KafkaUuid(random.randbytes(16)))
            ahead = random.choice((0, 1, 1, 2, 1000, MAX_EPOCH))
            key = random.choice(voters) if voters else _stranger(random)
            return random.choice(_ANY)(
                random, Knowledge(node, cluster_id, key, min(MAX_EPOCH, epoch + ahead))
            )
        key = _stranger(random)
        if voters and random.random() < 0.5:
            key = ReplicaKey(random.choice(voters).id, KafkaUuid(random.randbytes(16)))
        if voters and random.random() < 0.3:
            # Claims that only the token of the epoch can prove.
            known = Knowledge(node, random.choice((None, node.cluster_id)), random.choice(voters), epoch)
            return random.choice(_WITHOUT_TOKEN)(random, known)
        has_leader = node.engine.leader_id >= 0
        kinds = _IN_EPOCH_WITH_LEADER if has_leader and random.random() < 0.5 else _WITHOUT_AUTHORITY
        named = random.choice((None, node.cluster_id))
        if _has_live_leader(node) and random.random() < 0.3:
            ahead = random.choice((1, 1, 5, 1000, MAX_EPOCH))
            newer = Knowledge(node, named, key, min(MAX_EPOCH, epoch + ahead))
            # Announcements of a leader have no directory id.
            return (
                _vote(random, newer) if key.id not in STRANGERS else random.choice(_ELECTORAL)(random, newer)
            )
        if voters and key.id in STRANGERS and random.random() < 0.2:
            # A leader that no voter has named, alive or not.
            newer = Knowledge(node, named, key, epoch + random.choice((0, 1, 1, 5)))
            return random.choice((_begin, _end))(random, newer)
        return random.choice(kinds)(random, Knowledge(node, named, key, epoch))


class Stranger:
    """The sending end of the connection; responses are ignored."""

    def __init__(self, frames: Callable[[], list[bytes]]) -> None:
        self._frames = frames

    def connected(self, transport: Transport) -> None:
        for frame in self._frames():
            transport.write(frame)

    def received(self, data: bytes) -> None:
        return None

    def closed(self, reason: str, refused: bool) -> None:
        return None


def _stranger(random: Random) -> ReplicaKey:
    return ReplicaKey(random.choice(STRANGERS), KafkaUuid(random.randbytes(16)))


def _has_live_leader(node: Node) -> bool:
    """Whether the receiver will certainly consider its leader alive when the request arrives."""
    engine = node.engine
    return engine.contact_ms(node.clock.now_ms()) < node.settings.raft.fetch_timeout_ms / 2


def _offset(random: Random, node: Node) -> int:
    """Draw an offset: the most harmful one is the log end, which acknowledges all records."""
    end = node.log.end_offset
    return random.choice(
        (end, end, end + 1, end + 1000, max(0, end - 1), 0, max(0, node.engine.high_watermark))
    )


def _vote(random: Random, known: Knowledge) -> Forged:
    epoch = known.epoch - random.choice((0, 0, 1))
    last = OffsetAndEpoch(known.node.log.end_offset + random.choice((0, 1, 1000)), max(0, epoch - 1))
    own = ReplicaKey(known.node.settings.node_id)
    request = VoteRequest(epoch, known.key, own, last, random.random() < 0.5)
    return Forged(vote_to_wire(request, known.cluster_id, VOTE_VERSION), VOTE_VERSION)


def _begin(random: Random, known: Knowledge) -> Forged:
    own, epoch = ReplicaKey(known.node.settings.node_id), known.epoch - random.choice((0, 0, 1))
    endpoint = Endpoint(LISTENER_NAME, HOST, 1)
    request = BeginEpochRequest(
        _not_leader(random, known), epoch, own, (endpoint,), random.choice((0, 1 << 50))
    )
    return Forged(begin_to_wire(request, known.cluster_id, BEGIN_VERSION), BEGIN_VERSION)


def _end(random: Random, known: Knowledge) -> Forged:
    own, epoch = ReplicaKey(known.node.settings.node_id), known.epoch - random.choice((0, 0, 1))
    leader = _not_leader(random, known)
    request = EndEpochRequest(leader, epoch, leader, (own, known.key))
    return Forged(end_to_wire(request, known.cluster_id, END_VERSION, ()), END_VERSION)


def _not_leader(random: Random, known: Knowledge) -> int:
    """Return an id that is not the leader of the receiver's epoch."""
    is_leader = known.key.id == known.node.engine.leader_id
    return random.choice(STRANGERS) if is_leader else known.key.id


def _fetch(random: Random, known: Knowledge) -> Forged:
    node = known.node
    epoch = min(MAX_EPOCH, known.epoch + random.choice((0, 0, 0, 1, 1000, -1)))
    last_epoch = random.choice((node.log.last_epoch, 0, epoch))
    request = FetchRequest(
        known.key, epoch, _offset(random, node), last_epoch, random.choice((0, 500)), 100_000,
        is_follower=random.random() < 0.5, read_round=random.choice((0, 1, 1 << 40)),
    )  # fmt: skip
    if random.random() < 0.5:
        return Forged(fetch_to_wire(request, known.cluster_id), 0)
    return Forged(stock_fetch_to_wire(request, known.cluster_id, FETCH_VERSION), FETCH_VERSION)


def _snapshot(random: Random, known: Knowledge) -> Forged:
    snapshot = OffsetAndEpoch(_offset(random, known.node), random.choice((0, known.epoch)))
    position = random.choice((0, 1, -1, 1 << 40))
    request = SnapshotRequest(known.key, known.epoch, snapshot, position, random.choice((0, 1000, 1 << 30)))
    return Forged(snapshot_request_to_wire(request, known.cluster_id, SNAPSHOT_VERSION), SNAPSHOT_VERSION)


def _update(random: Random, known: Knowledge) -> Forged:
    listeners = [Listener(LISTENER_NAME, HOST, 1)]
    return Forged(UpdateRaftVoterRequest(known.cluster_id, known.epoch, *known.key, listeners), 0)


def _remove(random: Random, known: Knowledge) -> Forged:
    return Forged(RemoveRaftVoterRequest(known.cluster_id, *known.key), 0)


def _announce(random: Random, known: Knowledge) -> Forged:
    """Announce the address of an unknown node."""
    stranger, booted_ms = _stranger(random), random.choice((0, 1, 1 << 60))
    host = random.choice((HOST, "", "10.0.0.1", "x" * 300))
    return Forged(
        DiscoverBrokersRequest(stranger.id, booted_ms, host, random.choice((1, 0, -1)), stranger[1]), 0
    )


def _redirect(random: Random, known: Knowledge) -> Forged:
    """Announce another address of a voter."""
    now_ms = known.node.clock.wall_ms()
    booted_ms = random.choice((now_ms, now_ms + 60_000, 1 << 60))
    return Forged(DiscoverBrokersRequest(known.key.id, booted_ms, HOST, 1, known.key.directory_id), 0)


def _malformed(random: Random, frame: bytes) -> bytes:
    """Cut the body of a frame, append to it, or replace it."""
    header, body = frame[4:24], frame[24:]
    way = random.randrange(3)
    if way == 0:
        body = body[: random.randrange(len(body))] if body else b""
    elif way == 1:
        body += random.randbytes(1 + random.randrange(20))
    else:
        body = random.randbytes(random.randrange(200))
    return (len(header) + len(body)).to_bytes(4) + header + body


_Forger = Callable[[Random, Knowledge], Forged]
_ELECTORAL: tuple[_Forger, ...] = (_vote, _begin, _end)
_IN_EPOCH_WITH_LEADER = _ELECTORAL
"""Rejected because the epoch has a leader or has ended."""
_WITHOUT_AUTHORITY: tuple[_Forger, ...] = (_fetch, _fetch, _fetch, _snapshot, _update, _remove, _announce)
"""Harmless because the replica in whose name they are sent is not a voter."""
_WITHOUT_TOKEN: tuple[_Forger, ...] = (_fetch, _fetch, _snapshot, _redirect)
"""Harmless in the name of any voter without the token of the epoch, or with an address that does not respond."""
_ANY: tuple[_Forger, ...] = (_vote, _begin, _end, _fetch, _snapshot, _update, _remove)
