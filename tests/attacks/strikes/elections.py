"""Attacks with forged epochs, leaders, fetch offsets and addresses."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread
from typing import Any

from quorumd.errors import ErrorCode, MalformedMessage
from quorumd.ids import Endpoint, KafkaUuid, OffsetAndEpoch, ReplicaKey
from quorumd.node.wire.fetch_messages import fetch_response_to_wire, fetch_to_wire
from quorumd.node.wire.quorum_messages import begin_to_wire, end_to_wire, vote_to_wire
from quorumd.protocol.apis import APIS, ApiKey
from quorumd.protocol.connection import Request, ServerConnection
from quorumd.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from quorumd.protocol.messages.discover_brokers_request import DiscoverBrokersRequest
from quorumd.protocol.wire import Message
from quorumd.raft.messages import BeginEpochRequest, EndEpochRequest, FetchRequest, FetchResponse, VoteRequest
from quorumd.raft.replica import MAX_EPOCH
from tests.attacks.target import STRANGER, Peer, Target, send_everywhere

VOTE_VERSION, BEGIN_VERSION, END_VERSION = 2, 1, 1
STEPS = (1, 5, 1000, 99_999, 1 << 20)
DEAD_PORT = 9
MAX_STRANGERS = 3000
ALL_APIS = {key: (api.min_version, api.max_version) for key, api in APIS.items()}


def _random_id() -> KafkaUuid:
    return KafkaUuid(os.urandom(16))


def poison_epochs(target: Target) -> None:
    """Send Vote, pre-vote, BeginQuorumEpoch and EndQuorumEpoch requests with newer epochs, up to the last one, in the
    name of a stranger and of voters with other directory ids, with and without the cluster id."""

    def forged() -> Iterator[tuple[Message, int]]:
        names = [
            ReplicaKey(STRANGER, _random_id()),
            *(ReplicaKey(each, _random_id()) for each in target.nodes),
        ]
        for key in names:
            for cluster_id in (None, target.cluster_id):
                for epoch in [target.epoch + step for step in STEPS] + [MAX_EPOCH]:
                    for pre_vote in (False, True):
                        last = OffsetAndEpoch(target.end_offset + 1000, target.epoch)
                        vote = VoteRequest(epoch, key, ReplicaKey(-1), last, pre_vote)
                        yield vote_to_wire(vote, cluster_id, VOTE_VERSION), VOTE_VERSION
                    if key.id == STRANGER:
                        begin = BeginEpochRequest(
                            STRANGER, epoch, ReplicaKey(-1), (Endpoint("X", "127.0.0.1", 9),)
                        )
                        yield begin_to_wire(begin, cluster_id, BEGIN_VERSION), BEGIN_VERSION
                        end = EndEpochRequest(STRANGER, epoch, STRANGER, ())
                        yield end_to_wire(end, cluster_id, END_VERSION, ()), END_VERSION

    for _ in target.deadline():
        send_everywhere(target, forged())
        time.sleep(0.2)


def forge_progress(target: Target) -> None:
    """Send fetches in the name of stopped voters, with their directory ids, from offsets up to 1000 beyond the
    leader's log end."""
    with suppress(OSError):
        peer = Peer(target.leader_address)
        for _ in target.deadline():
            for node_id in target.down:
                for beyond in (0, 1, 2, 1000):
                    key = ReplicaKey(node_id, target.directories[node_id])
                    request = FetchRequest(
                        key,
                        target.epoch,
                        target.end_offset + beyond,
                        target.epoch,
                        0,
                        1 << 20,
                        is_follower=True,
                    )
                    message = fetch_to_wire(request, target.cluster_id)
                    peer.request(message, 0)


def forge_addresses(target: Target) -> None:
    """Announce unused ports for voters, with future timestamps, and the addresses of thousands of strangers."""
    soon = int(time.time() * 1000) + 60_000
    votes = [
        (DiscoverBrokersRequest(node_id, stamp, "127.0.0.1", DEAD_PORT, directory), 0)
        for node_id, directory in target.directories.items()
        for stamp in (soon, soon * 2, 1 << 60)
    ]
    send_everywhere(target, votes)
    for first in range(0, MAX_STRANGERS, 500):
        send_everywhere(
            target,
            [
                (DiscoverBrokersRequest(1000 + first + n, soon, "127.0.0.1", DEAD_PORT, _random_id()), 0)
                for n in range(500)
            ],
        )
    for _ in target.deadline():
        send_everywhere(target, votes)
        time.sleep(0.2)


def flood_with_observers(target: Target) -> None:
    """Fetch the metadata log with a new observer id in each request, as fast as the leader responds."""
    with suppress(OSError):
        peers = [Peer(target.leader_address) for _ in range(4)]
        number = 10_000
        for _ in target.deadline():
            for peer in peers:
                frames = []
                for _ in range(200):
                    number += 1
                    key = ReplicaKey(number, _random_id())
                    request = FetchRequest(key, target.epoch, 0, 0, 0, 1, is_follower=False)
                    frames.append(peer.frame(fetch_to_wire(request, target.cluster_id), 0))
                peer.send(*frames)
            for peer in peers:
                for _ in range(200):
                    peer.read_frame()


def forge_leader(target: Target) -> None:
    """Announce a leader of the current and newer epochs, which responds to every fetch with a divergence at offset 0,
    while the quorum elects its next leader."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=_serve, args=(server, target), daemon=True).start()
        port = server.getsockname()[1]
        for _ in target.deadline():
            send_everywhere(target, _announcements(target, port))
            time.sleep(0.01)


def _announcements(target: Target, port: int) -> Iterator[tuple[Message, int]]:
    endpoint = Endpoint("CONTROLLER", "127.0.0.1", port)
    for step in range(3):
        begin = BeginEpochRequest(STRANGER, target.epoch + step, ReplicaKey(-1), (endpoint,), 1)
        yield begin_to_wire(begin, target.cluster_id, BEGIN_VERSION), BEGIN_VERSION


def _serve(server: socket.socket, target: Target) -> None:
    while True:
        Thread(target=_respond, args=(server.accept()[0], target), daemon=True).start()


def _respond(link: socket.socket, target: Target) -> None:
    """Respond to one node as a leader whose log diverges at offset 0."""
    connection = ServerConnection(1 << 24, ALL_APIS)
    with suppress(OSError, MalformedMessage):
        while data := link.recv(1 << 16):
            for request in connection.receive(data):
                response = _response(request, target)
                if response is not None:
                    connection.respond(request, response)
            link.sendall(connection.take_output())


def _response(request: Request[Any], target: Target) -> Message | None:
    if request.api_key == ApiKey.API_VERSIONS:
        return ApiVersionsResponse(0, [ApiVersion(key, *versions) for key, versions in ALL_APIS.items()])
    if request.api_key == ApiKey.FETCH_QUORUM_RECORDS:
        diverging = OffsetAndEpoch(0, 0)
        epoch = request.message.leader_epoch
        response = FetchResponse(ErrorCode.NONE, STRANGER, epoch, target.end_offset, 0, diverging)
        return fetch_response_to_wire(response, b"", None)
    return None
