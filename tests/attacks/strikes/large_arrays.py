"""Attacks with requests that have more array elements than any client needs."""

from __future__ import annotations

from contextlib import closing, suppress
from itertools import count
from threading import Thread

from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from quorumd.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.wire import Message
from tests.attacks.target import HUGE_PARTITIONS, HUGE_TOPIC, Address, Peer, Target, log_in

NAMES = 200_000
CLIENTS = 8
MANY_CLIENTS = 100
PAGE = 2000


def _names() -> list[TopicRequest]:
    return [TopicRequest(f"topic-{number * 7919 % NAMES}") for number in range(NAMES)]


def describe_many_topics(target: Target) -> None:
    """Describe pages of 200,000 unsorted names from several clients, with and without a cursor."""
    names = _names()
    first = DescribeTopicPartitionsRequest(names, 2000)
    next_page = DescribeTopicPartitionsRequest(names, 2000, Cursor(names[-1].name, 0))
    repeat(target, target.leader_address, [(first, 0), (next_page, 0)])


def describe_pages_for_many(target: Target) -> None:
    """Request all pages of a huge topic from each of a hundred clients at the same time."""
    topic = [TopicRequest(HUGE_TOPIC)]
    pages = [
        DescribeTopicPartitionsRequest(topic, PAGE, Cursor(HUGE_TOPIC, begin))
        for begin in range(0, HUGE_PARTITIONS, PAGE)
    ]
    peers = [Peer(target.leader_address) for _ in range(MANY_CLIENTS)]
    for peer in peers:
        peer.send(*(peer.frame(page, 0) for page in pages))
    for peer in peers:
        for _ in pages:
            peer.read_frame()
        peer.close()


def describe_invalid_cursors(target: Target) -> None:
    """Describe 200,000 names from several clients, with a cursor that is not among them."""
    message = DescribeTopicPartitionsRequest(_names(), 2000, Cursor("topic-none", 0))
    repeat(target, target.leader_address, [(message, 0)])


def request_metadata_without_rights(target: Target) -> None:
    """Request the metadata of 200,000 topics, and of all, as a client without any rights."""
    topics = [MetadataRequestTopic(name=each.name) for each in _names()]
    address = target.sasl[list(target.nodes).index(target.leader)]
    repeat(target, address, [(MetadataRequest(topics, False), 12), (MetadataRequest(None), 12)], user="alice")


def create_topics_at_followers(target: Target) -> None:
    """Create 100,000 topics as a client without any rights, at a node that does not lead and refuses them all."""
    follower = next(node_id for node_id in target.nodes if node_id != target.leader)
    topics = [CreatableTopic(f"topic-{number}", 1, 1) for number in range(NAMES // 2)]
    address = target.sasl[list(target.nodes).index(follower)]
    repeat(target, address, [(CreateTopicsRequest(topics, 60_000, False), 7)], user="alice")


def repeat(target: Target, address: Address, messages: list[tuple[Message, int]], *, user: str = "") -> None:
    """Send the requests in turns from several clients at a time, each once the previous one has its response;
    as a user who logs in, if given."""
    peer = Peer(address)
    frames = [peer.frame(message, version) for message, version in messages]
    peer.close()

    def send(first: int) -> None:
        order = count(first)
        for _ in target.deadline():
            with suppress(OSError), closing(Peer(address)) as peer:
                if user:
                    log_in(peer, user)
                for _ in target.deadline():
                    peer.send(frames[next(order) % len(frames)])
                    peer.read_frame()

    threads = [Thread(target=send, args=(first,), daemon=True) for first in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
