"""Attacks with requests that have more array elements than any client needs."""

from __future__ import annotations

from contextlib import closing, suppress
from itertools import count
from threading import Thread

from quorumd.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from quorumd.protocol.wire import Message
from tests.attacks.target import Peer, Target

NAMES = 200_000
CLIENTS = 8


def _names() -> list[TopicRequest]:
    return [TopicRequest(f"topic-{number * 7919 % NAMES}") for number in range(NAMES)]


def describe_many_topics(target: Target) -> None:
    """Describe pages of 200,000 unsorted names from several clients, with and without a cursor."""
    names = _names()
    first = DescribeTopicPartitionsRequest(names, 2000)
    next_page = DescribeTopicPartitionsRequest(names, 2000, Cursor(names[-1].name, 0))
    repeat(target, [(first, 0), (next_page, 0)])


def describe_invalid_cursors(target: Target) -> None:
    """Describe 200,000 names from several clients, with a cursor that is not among them."""
    repeat(target, [(DescribeTopicPartitionsRequest(_names(), 2000, Cursor("topic-none", 0)), 0)])


def repeat(target: Target, messages: list[tuple[Message, int]]) -> None:
    """Send the requests in turns from several clients at a time, each once the previous one has its response."""
    peer = Peer(target.leader_address)
    frames = [peer.frame(message, version) for message, version in messages]
    peer.close()

    def send(first: int) -> None:
        order = count(first)
        for _ in target.deadline():
            with suppress(OSError), closing(Peer(target.leader_address)) as peer:
                for _ in target.deadline():
                    peer.send(frames[next(order) % len(frames)])
                    peer.read_frame()

    threads = [Thread(target=send, args=(first,), daemon=True) for first in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
