"""Attacks on processor time, memory and file descriptors, mostly with too many valid requests or connections."""

from __future__ import annotations

import resource
import socket
import time
from contextlib import suppress
from random import Random

from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.wire import Message
from tests.attacks.target import HUGE_TOPIC, SIZE, Address, Peer, Target
from tests.fuzz.messages import messages_of_all_versions
from tests.fuzz.mutation import Mutator

METADATA_VERSION = 12
PIPELINED = 200
CLIENTS = 100
FLOOD_BATCH = 500
UNFINISHED_FRAMES = 12
UNFINISHED_BYTES = 80 * 1024 * 1024
DEAF_CLIENTS = 40
UNNAMED_CLIENTS = 1500
UNNAMED_TOPICS = 1500
CREATE_TOPICS_VERSION = 7
DEAF_BUFFER = 4096
CONNECTIONS = 4200
"""More connections than the hard limit of open files of a node."""
HTTP_CONNECTIONS = 600


def huge_metadata() -> Message:
    """Return a request for the metadata of the topic with 10,000 partitions."""
    return MetadataRequest([MetadataRequestTopic(name=HUGE_TOPIC)], False)


def pipeline_metadata(target: Target) -> None:
    """Send 200 requests for huge responses at once on one connection, and read the responses."""
    for _ in target.deadline():
        with suppress(OSError):
            peer = Peer(target.leader_address)
            peer.send(*(peer.frame(huge_metadata(), METADATA_VERSION) for _ in range(PIPELINED)))
            for _, _ in zip(range(PIPELINED), target.deadline(), strict=False):
                peer.read_frame()
            peer.close()


def metadata_for_many(target: Target) -> None:
    """Send one request for a huge response from each of a hundred clients at the same time."""
    peers = [Peer(target.leader_address) for _ in range(CLIENTS)]
    for peer in peers:
        peer.send(peer.frame(huge_metadata(), METADATA_VERSION))
    for peer in peers:
        with suppress(OSError):
            peer.read_frame()


def metadata_for_closed_connections(target: Target) -> None:
    """Send requests for huge responses and close the connection without reading."""
    for _ in target.deadline():
        with suppress(OSError):
            peer = Peer(target.leader_address)
            peer.send(*(peer.frame(huge_metadata(), METADATA_VERSION) for _ in range(PIPELINED)))
            peer.close()


def create_unnamed_topics(target: Target) -> None:
    """Send one request from each of many clients, whose elements take forty times the memory of their encoding."""
    topics = CreateTopicsRequest([CreatableTopic("", 1, 1)] * UNNAMED_TOPICS, 60_000, False)
    peers = []
    for _ in range(UNNAMED_CLIENTS):
        with suppress(OSError):
            peers.append(peer := Peer(target.leader_address))
            peer.send(peer.frame(topics, CREATE_TOPICS_VERSION))
    for _ in target.deadline():
        time.sleep(0.05)


def flood_with_requests(target: Target) -> None:
    """Send small requests on a few connections, as fast as the leader responds."""
    peers = [Peer(target.leader_address) for _ in range(4)]
    frame = peers[0].frame(DescribeClusterRequest(), 0)
    for _ in target.deadline():
        for peer in peers:
            with suppress(OSError):
                peer.send(frame * FLOOD_BATCH)
        for peer in peers:
            with suppress(OSError):
                for _ in range(FLOOD_BATCH):
                    peer.read_frame()


def leave_frames_unfinished(target: Target) -> None:
    """Start frames of 80 MiB on many connections, and never finish them."""
    _leave_unfinished(target, list(target.nodes.values()))


def _leave_unfinished(target: Target, addresses: list[Address]) -> None:
    chunk = bytes(1 << 16)
    head = SIZE.pack(UNFINISHED_BYTES) + bytes((0, 3, 0, 12)) + bytes(8)
    peers: list[tuple[Peer, int]] = []
    for address in addresses:
        for _ in range(UNFINISHED_FRAMES):
            with suppress(OSError):
                peer = Peer(address)
                peer.socket.setblocking(False)
                peers.append((peer, 0))
                peer.socket.send(head)
    for _ in target.deadline():
        for position, (peer, sent) in enumerate(peers):
            with suppress(OSError):
                if sent < UNFINISHED_BYTES - 2 * len(chunk):
                    peers[position] = (peer, sent + peer.socket.send(chunk))


def read_nothing(target: Target) -> None:
    """Request huge responses from many clients that never read."""
    peers = [Peer(target.leader_address, DEAF_BUFFER) for _ in range(DEAF_CLIENTS)]
    for peer in peers:
        with suppress(OSError):
            peer.send(*(peer.frame(huge_metadata(), METADATA_VERSION) for _ in range(PIPELINED // 4)))
    for left in target.deadline():
        time.sleep(min(0.1, left))


def exhaust_descriptors(target: Target) -> None:
    """Open more idle connections to every node than it may have open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    _open_everywhere(list(target.nodes.values()), CONNECTIONS, target)
    del soft


def exhaust_http(target: Target) -> None:
    """Open connections to the HTTP endpoints and send nothing."""
    _open_everywhere(target.http, HTTP_CONNECTIONS, target)


def _open_everywhere(addresses: list[Address], count: int, target: Target) -> None:
    """Open `count` connections to every address, and close them at the end of the attack."""
    links: list[socket.socket] = []
    for address in addresses:
        for _ in range(count):
            link = socket.socket()
            link.setblocking(False)
            with suppress(OSError):
                link.connect(address)
            links.append(link)
    for left in target.deadline():
        time.sleep(min(0.1, left))
    for link in links:
        link.close()


def send_bad_frames(target: Target) -> None:
    """Send malformed frames, each on a new connection."""
    for _ in target.deadline():
        for address in target.nodes.values():
            with suppress(OSError):
                peer = Peer(address)
                peer.send(b"\xff\xff\xff\xff\xff")
                peer.close()


def send_fuzzed(target: Target) -> None:
    """Send mutated requests of every API and version."""
    frames = [
        kind.API_KEY.to_bytes(2) + version.to_bytes(2) + bytes(4) + b"\xff\xff\x00" + body
        for kind, version, bodies in messages_of_all_versions(2)
        if kind.API_KEY is not None and kind.NAME.endswith("Request")
        for body in bodies
    ]
    mutator = Mutator(Random(int(target.seconds)), frames)
    for _ in target.deadline():
        for address in target.nodes.values():
            with suppress(OSError):
                peer = Peer(address)
                for _ in range(20):
                    payload = mutator.next_input()
                    peer.send(SIZE.pack(len(payload)) + payload)
                peer.close()


def greet(target: Target) -> None:
    """Send a small request every 0.1 seconds: the baseline without an attack."""
    peer = Peer(target.leader_address)
    for left in target.deadline():
        peer.request(ApiVersionsRequest("attacker", "1"), 3)
        time.sleep(min(0.1, left))
