"""Regular expressions in subscriptions (KIP-848): evaluation, sharing, records, failover and limits."""

from __future__ import annotations

import pytest

from quorumd.broker.coordinator.consumer_group import (
    EMPTY_ASSIGNMENT,
    LEAVING,
    LEAVING_STATIC,
    ConsumerGroup,
    ResolvedRegex,
    group_tombstones,
)
from quorumd.broker.coordinator.records import LoadedRecord
from quorumd.errors import ErrorCode, RequestError
from quorumd.protocol.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from quorumd.protocol.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from quorumd.protocol.messages.consumer_group_regular_expression_value import (
    ConsumerGroupRegularExpressionValue,
)
from tests.support.broker.classic_members import Groups
from tests.support.broker.consumer_members import ConsumerClient
from tests.support.broker.coordinator_shards import Evaluations, FixedTopics, group_shard, topic_id

ORDERS = "^orders-.*"


@pytest.fixture
def topics() -> FixedTopics:
    return FixedTopics(**{"orders-1": 2, "orders-2": 1, "other": 4})


@pytest.fixture
def evaluations(topics: FixedTopics) -> Evaluations:
    return Evaluations(topics)


@pytest.fixture
def groups(topics: FixedTopics, evaluations: Evaluations) -> Groups:
    return group_shard(topics=topics, evaluations=evaluations)


def owned_topics(*clients: ConsumerClient) -> set[bytes]:
    return {bytes(id).rstrip(b".") for client in clients for id, _ in client.owned}


def joined(groups: Groups, evaluations: Evaluations, *clients: ConsumerClient) -> None:
    for client in clients:
        client.beat()
    evaluations.run(groups)
    for _ in range(4):
        for client in clients:
            client.beat()


def regex_records(groups: Groups) -> list[tuple[str, list[str] | None]]:
    """The (expression, topics) of every record in the log, None for a tombstone."""
    found: list[tuple[str, list[str] | None]] = []
    for record in groups.log.records("group"):
        if isinstance(record, LoadedRecord) and isinstance(record.key, ConsumerGroupRegularExpressionKey):
            value = record.value
            assert value is None or isinstance(value, ConsumerGroupRegularExpressionValue)
            found.append((record.key.regular_expression, None if value is None else value.topics))
    return found


def test_member_gets_the_topics_that_match_once_they_are_known(
    groups: Groups, evaluations: Evaluations
) -> None:
    client = ConsumerClient(groups, "m1", regex=ORDERS)
    first = client.beat()
    assert (first.error, first.epoch, first.assignment) == (ErrorCode.NONE, 1, EMPTY_ASSIGNMENT)
    evaluations.run(groups)
    client.beat()
    assert client.owned == {(topic_id("orders-1"), 0), (topic_id("orders-1"), 1), (topic_id("orders-2"), 0)}


def test_whole_name_must_match(groups: Groups, evaluations: Evaluations) -> None:
    client = ConsumerClient(groups, "m1", regex="orders|.*-2")
    joined(groups, evaluations, client)
    assert owned_topics(client) == {b"orders-2"}


def test_names_and_expression_add_up(groups: Groups, evaluations: Evaluations) -> None:
    client = ConsumerClient(groups, "m1", "other", regex=ORDERS)
    joined(groups, evaluations, client)
    assert owned_topics(client) == {b"orders-1", b"orders-2", b"other"}


def test_members_share_an_expression(groups: Groups, evaluations: Evaluations) -> None:
    clients = [ConsumerClient(groups, name, regex=ORDERS) for name in ("m1", "m2")]
    joined(groups, evaluations, *clients)
    assert regex_records(groups) == [(ORDERS, ["orders-1", "orders-2"])]
    assert sorted(len(client.owned) for client in clients) == [1, 2]
    third = ConsumerClient(groups, "m3", regex=ORDERS)
    third.beat()
    assert not evaluations.begun, "its topics are known"
    assert third.epoch == clients[0].epoch + 1


def test_new_topic_that_matches_is_assigned(
    groups: Groups, evaluations: Evaluations, topics: FixedTopics
) -> None:
    client = ConsumerClient(groups, "m1", regex=ORDERS)
    joined(groups, evaluations, client)
    topics.create("orders-3", 1)
    client.beat()
    assert not evaluations.begun, "the last evaluation was less than 10 s ago"
    groups.pass_ms(10_000)
    client.beat()
    client.beat()
    assert len(evaluations.begun) == 1, "one at a time"
    evaluations.run(groups)
    client.beat()
    assert owned_topics(client) == {b"orders-1", b"orders-2", b"orders-3"}
    groups.pass_ms(10_000)
    client.beat()
    assert not evaluations.begun


def test_change_of_the_metadata_without_new_topics_evaluates_nothing(
    groups: Groups, evaluations: Evaluations, topics: FixedTopics
) -> None:
    client = ConsumerClient(groups, "m1", regex=ORDERS)
    joined(groups, evaluations, client)
    groups.pass_ms(10_000)
    topics.delete("orders-1")
    client.beat()
    client.beat()
    assert not evaluations.begun
    assert owned_topics(client) == {b"orders-2"}


def test_expressions_are_evaluated_again_after_the_refresh_interval(
    groups: Groups, evaluations: Evaluations
) -> None:
    client = ConsumerClient(groups, "m1", regex=ORDERS)
    joined(groups, evaluations, client)
    epoch = client.epoch
    for _ in range(60):
        groups.pass_ms(10_000)
        assert not evaluations.begun
        client.beat()
    evaluations.run(groups)
    client.beat()
    assert regex_records(groups) == 2 * [(ORDERS, ["orders-1", "orders-2"])]
    assert client.epoch == epoch, "the same topics"


def test_topics_that_the_member_may_not_describe_do_not_match(
    groups: Groups, evaluations: Evaluations
) -> None:
    client = ConsumerClient(groups, "m1", regex=".*")
    client.beat(may_describe=lambda topic: topic == "other")
    evaluations.run(groups)
    client.beat()
    assert owned_topics(client) == {b"other"}


# Changes of subscriptions


def test_changed_expression_replaces_the_topics(groups: Groups, evaluations: Evaluations) -> None:
    client = ConsumerClient(groups, "m1", regex=ORDERS)
    joined(groups, evaluations, client)
    client.regex = "other"
    groups.pass_ms(10_000)
    joined(groups, evaluations, client)
    assert owned_topics(client) == {b"other"}
    assert regex_records(groups)[1:] == [(ORDERS, None), ("other", ["other"])]


def test_empty_expression_ends_the_subscription(groups: Groups, evaluations: Evaluations) -> None:
    client = ConsumerClient(groups, "m1", "other", regex=ORDERS)
    joined(groups, evaluations, client)
    client.regex = ""
    for _ in range(3):
        client.beat()
    assert owned_topics(client) == {b"other"}
    assert regex_records(groups)[-1] == (ORDERS, None)


def test_heartbeat_without_an_expression_keeps_it(groups: Groups, evaluations: Evaluations) -> None:
    client = ConsumerClient(groups, "m1", regex=ORDERS)
    joined(groups, evaluations, client)
    end_offset = groups.log.end_offset
    client.beat(topics=None, regex=None, owned=None, rebalance_timeout_ms=-1)
    assert groups.log.end_offset == end_offset


def test_last_subscriber_that_leaves_deletes_the_topics(groups: Groups, evaluations: Evaluations) -> None:
    clients = [ConsumerClient(groups, name, regex=ORDERS) for name in ("m1", "m2")]
    joined(groups, evaluations, *clients)
    clients[0].beat(epoch=LEAVING)
    assert regex_records(groups)[-1] == (ORDERS, ["orders-1", "orders-2"])
    clients[1].beat(epoch=LEAVING)
    assert regex_records(groups)[-1] == (ORDERS, None)
    assert groups.machine.consumers.groups["g"].regexes == {}


@pytest.mark.parametrize("leaves", [True, False])
def test_first_expression_is_evaluated_at_once(
    groups: Groups, evaluations: Evaluations, leaves: bool
) -> None:
    first, second = ConsumerClient(groups, "m1", regex=ORDERS), ConsumerClient(groups, "m2", "other")
    joined(groups, evaluations, first, second)
    first.beat(**({"epoch": LEAVING} if leaves else {"regex": ""}))
    second.regex = ORDERS
    second.beat()
    assert len(evaluations.begun) == 1, "although the last evaluation was less than 10 s ago"


def test_member_that_sends_its_subscription_gets_its_assignment(
    groups: Groups, evaluations: Evaluations
) -> None:
    client = ConsumerClient(groups, "m1", regex=ORDERS)
    joined(groups, evaluations, client)
    assert client.beat(topics=None).assignment == client.owned, "a full request"
    assert client.beat(topics=None, regex=None).assignment is None


def test_returning_static_member_keeps_its_topics(groups: Groups, evaluations: Evaluations) -> None:
    before = ConsumerClient(groups, "m1", regex=ORDERS, instance_id="i1")
    joined(groups, evaluations, before)
    epoch = before.epoch
    before.beat(epoch=LEAVING_STATIC)
    after = ConsumerClient(groups, "m2", regex=ORDERS, instance_id="i1")
    after.beat()
    assert (after.owned, after.epoch) == (before.owned, epoch)
    assert regex_records(groups) == [(ORDERS, ["orders-1", "orders-2"])]


def test_result_for_a_member_that_has_left_is_dropped(groups: Groups, evaluations: Evaluations) -> None:
    client, other = ConsumerClient(groups, "m1", regex=ORDERS), ConsumerClient(groups, "m2", "other")
    client.beat()
    other.beat()
    client.beat(epoch=LEAVING)
    evaluations.run(groups)
    assert regex_records(groups) == []


def test_invalid_expression_is_refused_and_changes_nothing(groups: Groups) -> None:
    result = ConsumerClient(groups, "m1", regex="orders-(").beat()
    assert result.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert groups.machine.consumers.groups == {}
    assert groups.log.end_offset == 0


# Failures


def test_next_coordinator_has_the_topics_and_evaluates_again(
    groups: Groups, evaluations: Evaluations, topics: FixedTopics
) -> None:
    client = ConsumerClient(groups, "m1", regex=ORDERS)
    joined(groups, evaluations, client)
    owned = client.owned
    topics.create("orders-3", 1)
    groups.fail_over()
    assert groups.machine.consumers.groups["g"].regexes[ORDERS].topics == {"orders-1", "orders-2"}
    client.beat(regex=None)
    assert client.owned == owned
    evaluations.run(groups)
    client.beat(regex=None)
    assert owned_topics(client) == {b"orders-1", b"orders-2", b"orders-3"}


def test_result_of_the_previous_coordinator_is_dropped(groups: Groups, evaluations: Evaluations) -> None:
    client = ConsumerClient(groups, "m1", regex=ORDERS)
    client.beat()
    groups.fail_over()
    evaluations.run(groups)
    assert regex_records(groups) == []
    client.beat()
    evaluations.run(groups)
    assert regex_records(groups) == [(ORDERS, ["orders-1", "orders-2"])]


def test_evaluation_whose_record_is_not_appended_is_repeated(
    groups: Groups, evaluations: Evaluations
) -> None:
    client = ConsumerClient(groups, "m1", regex=ORDERS)
    client.beat()
    groups.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    evaluations.run(groups)
    groups.log.refuses = ErrorCode.NONE
    client.beat()
    evaluations.run(groups)
    client.beat()
    assert owned_topics(client) == {b"orders-1", b"orders-2"}


def test_group_keeps_its_topics_where_the_expression_does_not_compile(
    topics: FixedTopics, evaluations: Evaluations, groups: Groups
) -> None:
    client = ConsumerClient(groups, "m1", regex=ORDERS)
    joined(groups, evaluations, client)

    def refuse(pattern: str) -> object:
        raise RequestError(ErrorCode.INVALID_REGULAR_EXPRESSION, pattern)

    evaluations.compile = refuse  # type: ignore[assignment]  # it never returns
    groups.fail_over()
    client.beat(regex=None)
    evaluations.run(groups)
    client.beat(regex=None)
    assert owned_topics(client) == {b"orders-1", b"orders-2"}


def test_deletion_of_a_group_deletes_its_expressions() -> None:
    group = ConsumerGroup("g", regexes={ORDERS: ResolvedRegex(frozenset({"orders-1"}), 7, 1)})
    deleted = [
        (record.key.group_id, record.key.regular_expression, record.value)
        for record in group_tombstones(group)
        if isinstance(record.key, ConsumerGroupRegularExpressionKey)
    ]
    assert deleted == [("g", ORDERS, None)]


def test_record_of_a_member_has_its_expression(groups: Groups) -> None:
    ConsumerClient(groups, "m1", "other", regex=ORDERS).beat()
    ConsumerClient(groups, "m2", "other").beat()
    values = [record.value for record in groups.log.records("group") if isinstance(record, LoadedRecord)]
    subscriptions = [
        (value.subscribed_topic_names, value.subscribed_topic_regex)
        for value in values
        if isinstance(value, ConsumerGroupMemberMetadataValue)
    ]
    assert subscriptions == [(["other"], ORDERS), (["other"], "")], "as Kafka's records"
