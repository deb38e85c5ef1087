"""A follower whose leader sends invalid responses, or whose own log fails."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from quorumd.errors import ErrorCode, StorageError
from quorumd.protocol.messages.fetch_response import FetchResponse
from quorumd.protocol.messages.list_offsets_response import ListOffsetsResponse
from quorumd.protocol.wire import Message
from tests.support.broker.simulated_brokers import SimulatedBrokers

Tamper = Callable[[Message], None]


class Follower:
    """Broker 2 follows broker 1; `tamper` changes the responses that it gets, `tampered` counts those."""

    def __init__(self) -> None:
        self.cluster = SimulatedBrokers((1, 2), log_directories=("/first", "/second"))
        self.tamper: Tamper = lambda response: None
        broker = self.cluster.brokers[2]
        send = broker.send

        def tampered_send(
            broker_id: int, api_key: int, build: Any, on_response: Any, on_failure: Any, timeout_ms: float
        ) -> None:
            def respond(response: Message) -> None:
                self.tamper(response)
                on_response(response)

            send(broker_id, api_key, build, respond, on_failure, timeout_ms)

        broker.send = tampered_send  # type: ignore[method-assign]  # between the two brokers
        self.cluster.start()
        self.cluster.create_topic("events", (1, 2), min_insync_replicas="1", retention_ms="-1")
        assert self.cluster.await_leader("events").id == 1
        assert self.cluster.produce_and_wait("events").error is ErrorCode.NONE
        self.cluster.run_until(lambda: self.end == 1)

    @property
    def hosted(self) -> Any:
        return self.cluster.hosted(2, "events")

    @property
    def end(self) -> int:
        hosted = self.hosted
        return -1 if hosted is None else hosted.log.end_offset

    def catches_up(self, end: int) -> None:
        self.cluster.run_until(lambda: self.end == end)


@pytest.fixture
def follower() -> Follower:
    return Follower()


def with_records(count: int, change: Callable[[Any], None]) -> Tamper:
    """Change the partitions with records of the first `count` fetch responses that have any."""
    left = [count]

    def tamper(response: Message) -> None:
        if isinstance(response, FetchResponse):
            for topic in response.responses:
                for partition in topic.partitions:
                    if partition.records and left[0]:
                        left[0] -= 1
                        change(partition)

    return tamper


def set_records(partition: Any) -> None:
    partition.records = partition.records[:-1] + b"\x7f"


def set_error(partition: Any) -> None:
    partition.error_code, partition.records = 9_999, b""


@pytest.mark.parametrize("change", [set_records, set_error])
def test_malformed_records_of_the_leader_are_fetched_again(
    follower: Follower, change: Callable[[Any], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    follower.tamper = with_records(2 if change is set_records else 4, change)
    follower.cluster.produce("events")
    follower.catches_up(2)
    assert follower.hosted.directory.is_online
    assert ("broker 1 sent" if change is set_records else "UNKNOWN_SERVER_ERROR") in caplog.text


def test_failed_log_of_a_follower_fails_its_directory(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = follower.hosted

    def fail(*arguments: object) -> int:
        raise StorageError("a bad block")

    monkeypatch.setattr(hosted.log, "append_as_follower", fail)
    follower.cluster.produce("events")
    follower.cluster.run_until(lambda: not hosted.directory.is_online)
    assert follower.cluster.brokers[2].failures == []


# Offsets out of range


def behind(follower: Follower) -> None:
    """The follower's next offset is no longer in the leader's log."""
    cluster = follower.cluster
    cluster.brokers[2].is_isolated = True
    for _ in range(3):
        cluster.produce("events")
    cluster.run_for(60_000)
    leader = cluster.hosted(1, "events")
    assert leader is not None
    assert leader.log.end_offset == 4
    leader.log.delete_before(3)
    cluster.brokers[2].is_isolated = False
    cluster.brokers[2].catch_up()


def test_follower_continues_at_the_start_of_the_leaders_log(follower: Follower) -> None:
    behind(follower)
    follower.catches_up(4)
    assert follower.hosted.log.start_offset == 3


def no_partition(response: Any) -> None:
    response.topics = []


def failed(response: Any) -> None:
    response.topics[0].partitions[0].error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize("change", [no_partition, failed])
def test_failed_lookup_of_offsets_is_repeated(follower: Follower, change: Callable[[Any], None]) -> None:
    lookups: list[Message] = []

    def tamper(response: Message) -> None:
        if isinstance(response, ListOffsetsResponse):
            lookups.append(response)
            if len(lookups) == 1:
                change(response)

    follower.tamper = tamper
    behind(follower)
    follower.catches_up(4)
    assert len(lookups) == 3, "the failed one, then the start and the end of the log"


def test_log_that_cannot_be_reset_fails_its_directory(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = follower.hosted

    def fail(*arguments: object) -> None:
        raise StorageError("a bad block")

    monkeypatch.setattr(hosted.log, "reset", fail)
    behind(follower)
    follower.cluster.run_until(lambda: not hosted.directory.is_online)
    assert follower.end == -1
