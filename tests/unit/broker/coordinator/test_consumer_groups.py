"""Consumer groups (KIP-848): epochs, assignment, reconciliation, fencing and static members."""

from __future__ import annotations

import pytest

from quorumd.broker.coordinator.consumer_group import EMPTY_ASSIGNMENT, LEAVING, LEAVING_STATIC
from quorumd.broker.coordinator.groups import GroupClient, GroupListing
from quorumd.broker.coordinator.metadata_hash import group_hash
from quorumd.broker.coordinator.offset_requests import CommittedOffset, Errors
from quorumd.broker.coordinator.offset_store import TopicPartition
from quorumd.broker.coordinator.records import LoadedRecord
from quorumd.broker.settings.coordinator_settings import GroupSettings
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from tests.support.broker.classic_members import ClassicClient, Groups, stable_group
from tests.support.broker.consumer_members import ConsumerClient
from tests.support.broker.coordinator_shards import FixedTopics, group_shard, topic_id


@pytest.fixture
def topics() -> FixedTopics:
    return FixedTopics(a=6, b=2)


@pytest.fixture
def groups(topics: FixedTopics) -> Groups:
    return group_shard(topics=topics)


def settle(*clients: ConsumerClient) -> None:
    for _ in range(4):
        for client in clients:
            client.beat()


def state(groups: Groups) -> str:
    return groups.machine.consumers.groups["g"].state


def test_first_member_gets_everything_at_once(groups: Groups) -> None:
    client = ConsumerClient(groups, "m1", "a", "b")
    result = client.beat()
    assert (result.error, result.epoch) == (ErrorCode.NONE, 1)
    assert client.owned == {(topic_id("a"), n) for n in range(6)} | {(topic_id("b"), n) for n in range(2)}
    assert state(groups) == "Stable"


def test_partitions_move_once_their_owner_has_revoked_them(groups: Groups) -> None:
    first, second = ConsumerClient(groups, "m1", "a"), ConsumerClient(groups, "m2", "a")
    first.beat()
    assert second.beat().assignment == EMPTY_ASSIGNMENT
    assert second.epoch == 2
    result = first.beat()
    assert (result.epoch, len(first.owned)) == (1, 3), "it keeps its epoch until it has revoked"
    second.beat()
    assert second.owned == EMPTY_ASSIGNMENT
    first.beat()
    second.beat()
    assert first.epoch == second.epoch == 2
    assert first.owned | second.owned == {(topic_id("a"), n) for n in range(6)}
    assert state(groups) == "Stable"


def test_member_that_does_not_revoke_is_removed_at_its_rebalance_timeout(groups: Groups) -> None:
    first, second = ConsumerClient(groups, "m1", "a"), ConsumerClient(groups, "m2", "a")
    first.beat()
    second.beat()
    everything = first.owned
    first.beat()
    for _ in range(2):
        groups.pass_ms(14_000)
        first.beat(owned=everything)
        second.beat()
    groups.pass_ms(2_000)
    assert first.beat(owned=everything).error is ErrorCode.UNKNOWN_MEMBER_ID
    second.beat()
    assert second.owned == everything


def test_silent_member_is_removed_with_its_session(groups: Groups) -> None:
    first, second = ConsumerClient(groups, "m1", "a"), ConsumerClient(groups, "m2", "a")
    settle(first, second, first, second)
    groups.pass_ms(40_000)
    second.beat()
    groups.pass_ms(6_000)
    settle(second)
    assert second.numbers() == list(range(6))
    assert first.beat().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_leaves_frees_its_partitions(groups: Groups) -> None:
    first, second = ConsumerClient(groups, "m1", "a"), ConsumerClient(groups, "m2", "a")
    settle(first, second)
    assert first.beat(epoch=LEAVING).epoch == LEAVING
    settle(second)
    assert second.numbers() == list(range(6))


def test_member_epoch_is_fenced(groups: Groups) -> None:
    first = ConsumerClient(groups, "m1", "a")
    first.beat()
    assert first.beat(epoch=2).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert first.beat(epoch=1, member_id="other").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_previous_epoch_is_accepted_after_a_lost_response(groups: Groups) -> None:
    first = ConsumerClient(groups, "m1", "a")
    first.beat()
    first.topics = ("a", "b")
    before = first.owned
    first.beat()
    assert first.epoch == 2
    again = first.beat(epoch=1, owned=before)
    assert (again.error, again.epoch) == (ErrorCode.NONE, 2)
    first.epoch = 2
    too_much = before | {(topic_id("c"), 0)}
    assert first.beat(epoch=1, owned=too_much).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_new_partitions_are_assigned(groups: Groups, topics: FixedTopics) -> None:
    first = ConsumerClient(groups, "m1", "a", "later")
    first.beat()
    topics.counts["later"] = 3
    topics.offset += 1
    first.beat()
    assert (topic_id("later"), 2) in first.owned
    assert first.epoch == 2


def test_unchanged_heartbeat_writes_nothing(groups: Groups) -> None:
    first = ConsumerClient(groups, "m1", "a")
    first.beat()
    end_offset = groups.log.end_offset
    result = first.beat(topics=None, owned=None, rebalance_timeout_ms=-1)
    assert (result.error, result.assignment) == (ErrorCode.NONE, None)
    assert groups.log.end_offset == end_offset


def test_response_waits_until_its_records_are_replicated(groups: Groups) -> None:
    groups.log.is_replicating = False
    first = ConsumerClient(groups, "m1", "a")
    first.beat()
    assert first.is_waiting
    groups.replicate()
    assert len(first.owned) == 6


def test_refused_append_changes_nothing(groups: Groups) -> None:
    groups.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    first = ConsumerClient(groups, "m1", "a")
    assert first.beat().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(groups.machine.listings()) == []


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topics": None}, ErrorCode.INVALID_REQUEST),
        ({"owned": None}, ErrorCode.INVALID_REQUEST),
        ({"epoch": LEAVING_STATIC}, ErrorCode.INVALID_REQUEST),
        ({"assignor": "cooperative-sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_invalid_heartbeat_is_refused(groups: Groups, changes: dict[str, object], error: ErrorCode) -> None:
    assert ConsumerClient(groups, "m1", "a").beat(**changes).error is error
    assert list(groups.machine.listings()) == []


def test_range_assignor_gives_contiguous_partitions(groups: Groups) -> None:
    clients = [ConsumerClient(groups, name, "a", "b", assignor="range") for name in ("m1", "m2")]
    settle(*clients)
    assert clients[0].owned == {
        (topic_id("a"), 0),
        (topic_id("a"), 1),
        (topic_id("a"), 2),
        (topic_id("b"), 0),
    }


# Static members


def test_static_member_keeps_its_partitions_through_a_restart(groups: Groups) -> None:
    static = ConsumerClient(groups, "m1", "a", instance_id="i1")
    other = ConsumerClient(groups, "m2", "a")
    settle(static, other)
    before, epoch = static.owned, other.epoch
    restarted = ConsumerClient(groups, "m3", "a", instance_id="i1")
    assert restarted.beat().error is ErrorCode.UNRELEASED_INSTANCE_ID
    static.beat(epoch=LEAVING_STATIC)
    restarted.beat()
    assert restarted.owned == before
    assert restarted.epoch == epoch, "nothing was assigned again"
    static.epoch = epoch
    assert static.beat().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_member_that_does_not_return_is_removed(groups: Groups) -> None:
    static = ConsumerClient(groups, "m1", "a", instance_id="i1")
    static.beat()
    static.beat(epoch=LEAVING_STATIC)
    groups.pass_ms(45_000)
    assert state(groups) == "Empty"


# Failover, and other kinds of groups


def test_group_survives_a_failover(groups: Groups) -> None:
    clients = [ConsumerClient(groups, name, "a", "b") for name in ("m1", "m2", "m3")]
    settle(*clients)
    before = [client.owned for client in clients]
    groups.fail_over()
    assert state(groups) == "Stable"
    settle(*clients)
    assert [client.owned for client in clients] == before
    groups.pass_ms(45_000)
    assert state(groups) == "Empty", "sessions begin when the log is loaded"


def test_classic_group_with_members_is_not_a_consumer_group(groups: Groups) -> None:
    (classic,) = stable_group(groups, 1)
    client = ConsumerClient(groups, "m1", "a")
    assert client.beat().error is ErrorCode.GROUP_ID_NOT_FOUND
    classic.leave()
    assert client.beat().error is ErrorCode.NONE
    assert list(groups.machine.listings()) == [GroupListing("g", "consumer", "Stable", "consumer")]
    groups.fail_over()
    assert list(groups.machine.listings()) == [GroupListing("g", "consumer", "Stable", "consumer")]
    joined = ClassicClient(groups).join()
    assert joined is not None
    assert joined.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    client.beat(epoch=LEAVING)
    joined = ClassicClient(groups).join()
    assert joined is not None
    assert joined.error is ErrorCode.NONE
    assert next(groups.machine.listings()).type == "classic"


def test_commit_needs_the_member_epoch(groups: Groups) -> None:
    client = ConsumerClient(groups, "m1", "a")
    client.beat()
    target = TopicPartition("a", 0)
    found: list[Errors] = []
    for epoch, member_id in ((1, "m1"), (0, "m1"), (1, "m2"), (-1, "")):
        identity = GroupClient("g", member_id, None, epoch)
        groups.run(
            lambda machine, times, by=identity: machine.commit(  # type: ignore[misc]  # the default binds it
                by, [CommittedOffset(target, 5, -1, "")], times, found.append
            )
        )
    assert [errors[target] for errors in found] == [
        ErrorCode.NONE,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]


def test_only_a_group_without_members_is_deleted(groups: Groups) -> None:
    client = ConsumerClient(groups, "m1", "a")
    client.beat()
    found: list[ErrorCode] = []
    groups.run(lambda machine, times: machine.delete_group("g", found.append))
    client.beat(epoch=LEAVING)
    groups.run(lambda machine, times: machine.delete_group("g", found.append))
    assert found == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE]
    groups.fail_over()
    assert list(groups.machine.listings()) == []


def test_instance_id_belongs_to_one_member(groups: Groups) -> None:
    static = ConsumerClient(groups, "m1", "a", instance_id="i1")
    other = ConsumerClient(groups, "m2", "a")
    settle(static, other)
    epoch = other.epoch
    assert other.beat(instance_id="i1").error is ErrorCode.FENCED_INSTANCE_ID
    other.epoch = epoch
    assert other.beat(instance_id="unknown").error is ErrorCode.UNKNOWN_MEMBER_ID
    other.epoch = epoch
    for epoch in (LEAVING, LEAVING_STATIC):
        assert other.beat(epoch=epoch, instance_id="i1").error is ErrorCode.FENCED_INSTANCE_ID
        assert other.beat(epoch=epoch, instance_id="unknown").error is ErrorCode.UNKNOWN_MEMBER_ID
        assert other.beat(epoch=epoch, member_id="x", instance_id=None).error in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.INVALID_REQUEST,
        )
    assert len(groups.machine.consumers.groups["g"].members) == 2


def test_group_has_a_maximal_size(topics: FixedTopics) -> None:
    groups = group_shard(GroupSettings(consumer_max_size=1), topics)
    ConsumerClient(groups, "m1", "a").beat()
    assert ConsumerClient(groups, "m2", "a").beat().error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_deleted_group_is_absent_after_a_failover(groups: Groups) -> None:
    client = ConsumerClient(groups, "m1", "a")
    client.beat()
    client.beat(epoch=LEAVING)
    responses: list[ErrorCode] = []
    groups.run(lambda machine, times: machine.delete_group("g", responses.append))
    assert responses == [ErrorCode.NONE]
    groups.fail_over()
    assert list(groups.machine.listings()) == []
    assert "g" not in groups.machine.consumers.groups


def test_offsets_of_subscribed_topics_do_not_expire(topics: FixedTopics) -> None:
    groups = group_shard(GroupSettings(offsets_retention_ms=1_000_000), topics=topics)
    client = ConsumerClient(groups, "m1", "a")
    client.beat()
    offsets = [CommittedOffset(TopicPartition(topic, 0), 7, 3, "") for topic in ("a", "b")]
    responses: list[Errors] = []
    member = GroupClient("g", "m1", None, client.epoch)
    groups.run(lambda machine, times: machine.commit(member, offsets, times, responses.append))
    for _ in range(100):
        groups.pass_ms(20_000)
        client.beat()
    assert set(groups.machine.offsets.of_group("g")) == {TopicPartition("a", 0)}


def test_group_keeps_its_epoch_at_a_new_coordinator(groups: Groups, topics: FixedTopics) -> None:
    client = ConsumerClient(groups, "m1", "a", "b")
    client.beat()
    records = [each.value for each in groups.log.records("group") if isinstance(each, LoadedRecord)]
    (recorded,) = [each for each in records if isinstance(each, ConsumerGroupMetadataValue)]
    hashes = {name: topics.hash(name) or 0 for name in ("a", "b")}
    assert recorded.metadata_hash == group_hash(hashes)
    groups.fail_over()
    assert client.beat().epoch == 1
    topics.create("b", 3)
    assert client.beat().epoch == 2


def test_member_that_does_not_find_the_new_coordinator_is_removed(groups: Groups) -> None:
    first, second = ConsumerClient(groups, "m1", "a"), ConsumerClient(groups, "m2", "a")
    settle(first, second)
    groups.fail_over()
    for _ in range(2):
        groups.pass_ms(30_000)
        second.beat()
    assert list(groups.machine.consumers.groups["g"].members) == ["m2"]
