"""Groups that cannot be upgraded, and requests that mixed groups refuse; test_migration.py has what they accept."""

from __future__ import annotations

import pytest

from quorumd.broker.coordinator.classic_group import SyncResult
from quorumd.broker.coordinator.classic_membership import Sync
from quorumd.broker.coordinator.classic_rebalance import DeadlineKey
from quorumd.broker.coordinator.consumer_group import LEAVING
from quorumd.broker.coordinator.consumer_rebalance import CONSUMER_SESSION
from quorumd.errors import ErrorCode
from quorumd.protocol.codec import encode_into
from quorumd.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from tests.support.broker.classic_members import Groups, stable_group
from tests.support.broker.consumer_members import ConsumerClient
from tests.support.broker.coordinator_shards import FixedTopics, group_shard
from tests.support.broker.embedded_consumers import VERSION, EmbeddedConsumer, subscription


@pytest.fixture
def topics() -> FixedTopics:
    return FixedTopics(a=6)


@pytest.fixture
def groups(topics: FixedTopics) -> Groups:
    return group_shard(topics=topics)


def test_group_of_another_protocol_type_is_not_upgraded(groups: Groups) -> None:
    stable_group(groups, protocols=(("range", subscription(("a",))),))
    groups.machine.classic["g"].protocol_type = "connect"
    result = ConsumerClient(groups, "m", "a").beat()
    assert result.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "connect" in str(result.message)


def test_assignor_with_user_data_cannot_be_upgraded(groups: Groups) -> None:
    out = bytearray(VERSION.to_bytes(2, "big"))
    encode_into(ConsumerProtocolAssignment([], b"data of the assignor"), VERSION, out)
    stable_group(groups, protocols=(("sticky", subscription(("a",))),))
    for member in groups.machine.classic["g"].members.values():
        member.assignment = bytes(out)
    result = ConsumerClient(groups, "m", "a").beat()
    assert result.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "user data" in str(result.message)


@pytest.mark.parametrize(
    ("member_id", "protocol", "error"),
    [
        ("other", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "sticky", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("", "range", ErrorCode.NONE),
    ],
)
def test_sync_of_a_mixed_group_is_checked(
    groups: Groups, topics: FixedTopics, member_id: str, protocol: str | None, error: ErrorCode
) -> None:
    newcomer, classic = ConsumerClient(groups, "m", "a"), EmbeddedConsumer(groups, topics, "a")
    for _ in range(12):
        newcomer.beat()
        classic.step()
    results: list[SyncResult] = []
    sync = Sync("g", classic.generation, member_id or classic.member_id, None, "consumer", protocol, {})
    groups.run(lambda machine, times: machine.sync(sync, times, results.append))
    assert [result.error for result in results] == [error]


def test_deadlines_of_a_consumer_group_end_with_its_downgrade(groups: Groups, topics: FixedTopics) -> None:
    """The members have those of a classic group instead."""
    newcomer, classic = ConsumerClient(groups, "m", "a"), EmbeddedConsumer(groups, topics, "a")
    for _ in range(12):
        newcomer.beat()
        classic.step()
    key = DeadlineKey(CONSUMER_SESSION, "g", classic.member_id)
    deadlines = groups.machine._deadlines
    assert key in deadlines
    newcomer.beat(epoch=LEAVING)
    assert "g" in groups.machine.classic
    assert key not in deadlines
