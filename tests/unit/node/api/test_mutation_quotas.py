"""Quotas of requests that create and delete partitions (KIP-599)."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from quorumd.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from quorumd.protocol.wire import Message
from quorumd.quotas.entities import MUTATION_RATE
from tests.support.controller.topic_harness import a_broker
from tests.support.node.controller_harness import ControllerHarness
from tests.support.node.recording_session import DecodingSession

EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
BURST = 11
"""The mutations that a rate of 1 per second allows at once."""


class QuotaHarness(ControllerHarness):
    """A broker, and a quota of one mutation per second for clients without an identity."""

    def __init__(self) -> None:
        super().__init__()
        self.controller.image.brokers[1] = a_broker(1)
        ids = count(1)
        self.controller.new_uuid = lambda: KafkaUuid(next(ids).to_bytes(16, "big"))
        self.image.security.quotas[("user", "ANONYMOUS"),] = {MUTATION_RATE: 1.0}

    def send(self, message: Message, version: int | None = None, **attributes: Any) -> tuple[int, list[int]]:
        """Handle a request; returns throttle time and errors of its topics."""
        session = DecodingSession()
        for name, value in attributes.items():
            setattr(session.origin, name, value)
        self.request(message, session, version)
        while not session.responses:
            while self.turns:
                self.turns.pop(0)()
            self.commit()
            self.confirm()
        response = session.responses[-1]
        items = getattr(response, "topics", None) or getattr(response, "responses", None) or response.results
        return response.throttle_time_ms, [item.error_code for item in items]


@pytest.fixture
def harness() -> QuotaHarness:
    return QuotaHarness()


def create(*sizes: int, prefix: str = "t") -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(f"{prefix}{n}", size, 1) for n, size in enumerate(sizes)])


def test_topics_beyond_the_quota_are_refused(harness: QuotaHarness) -> None:
    assert harness.send(create(BURST, 4, 1)) == (4000, [0, 0, EXCEEDED])
    assert set(harness.image.topic_ids) == {"t0", "t1"}
    assert harness.statistics.quotas.throttled == {MUTATION_RATE: 1}
    harness.time.pass_ms(3999)
    assert harness.send(create(1, prefix="u")) == (1, [EXCEEDED])
    harness.time.pass_ms(1)
    assert harness.send(create(1, prefix="u")) == (0, [0])


def test_older_clients_are_only_throttled(harness: QuotaHarness) -> None:
    assert harness.send(create(BURST, 4, 1), 5) == (5000, [0, 0, 0])


@pytest.mark.parametrize(("version", "errors"), [(4, [0]), (5, [EXCEEDED])])
def test_deletions_count_each_partition(harness: QuotaHarness, version: int, errors: list[int]) -> None:
    harness.send(create(BURST + 1))
    throttle_ms, found = harness.send(DeleteTopicsRequest([], ["t0"]), version)
    assert found == errors
    assert throttle_ms == (1000 if errors[0] else 1000 + 1000 * (BURST + 1))
    harness.time.pass_ms(1000)
    by_name = DeleteTopicsRequest([DeleteTopicState("t0")])
    assert harness.send(by_name)[1] == ([0] if errors[0] else [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])


@pytest.mark.parametrize(("version", "error"), [(2, 0), (3, EXCEEDED)])
def test_new_partitions_count(harness: QuotaHarness, version: int, error: int) -> None:
    harness.send(create(1))
    grow = CreatePartitionsRequest([CreatePartitionsTopic("t0", 1 + BURST + 1, None)])
    assert harness.send(grow, version)[1] == [0]
    again = CreatePartitionsRequest([CreatePartitionsTopic("t0", 1 + BURST + 2, None)])
    throttle_ms, errors = harness.send(again, version)
    assert errors == [error]
    assert throttle_ms > 0


def test_large_request_has_the_throttle_time_of_its_last_part(harness: QuotaHarness) -> None:
    size = MAX_PARTITIONS_PER_PART + 1
    throttle_ms, errors = harness.send(create(size, size))
    assert errors == [0, EXCEEDED]
    assert throttle_ms == 1000 * (size - BURST)


def test_only_topics_that_may_be_created_count(harness: QuotaHarness) -> None:
    harness.send(create(1))
    assert harness.send(create(10_000)) == (0, [ErrorCode.TOPIC_ALREADY_EXISTS])
    assert harness.send(create(BURST - 1, 1, prefix="u")) == (0, [0, 0])


def test_brokers_of_this_process_and_clients_without_quota_are_not_throttled(harness: QuotaHarness) -> None:
    assert harness.send(create(100), is_internal=True) == (0, [0])
    assert harness.send(create(100, prefix="u"), principal="User:bob") == (0, [0])
