"""Groups with members of both protocols: upgrades, downgrades, and the requests of classic members in between."""

from __future__ import annotations

import pytest

from quorumd.broker.coordinator.classic_group import GroupState
from quorumd.broker.coordinator.consumer_group import LEAVING
from quorumd.broker.coordinator.offset_requests import CommittedOffset, Errors
from quorumd.broker.coordinator.offset_store import TopicPartition
from quorumd.broker.coordinator.records import LoadedRecord
from quorumd.broker.settings.coordinator_settings import GroupSettings, MigrationPolicy
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from tests.support.broker.classic_members import ClassicClient, Groups, leave, stable_group
from tests.support.broker.consumer_members import ConsumerClient
from tests.support.broker.coordinator_shards import FixedTopics, group_shard, topic_id
from tests.support.broker.embedded_consumers import EmbeddedConsumer

Client = EmbeddedConsumer | ConsumerClient


def policy(value: str, **others: int) -> GroupSettings:
    return GroupSettings(
        initial_rebalance_delay_ms=0, consumer_migration_policy=MigrationPolicy(value), **others
    )


@pytest.fixture
def topics() -> FixedTopics:
    return FixedTopics(a=6)


@pytest.fixture
def groups(topics: FixedTopics) -> Groups:
    return group_shard(topics=topics)


def settle(*clients: Client) -> None:
    for _ in range(12):
        for client in clients:
            if isinstance(client, ConsumerClient):
                client.beat()
            else:
                client.step()


def all_owned(*clients: Client) -> list[int]:
    """Return the partition numbers that the clients own, sorted; a number is repeated if it has several owners."""
    return sorted(number for client in clients for _, number in client.owned)


def stable(groups: Groups, topics: FixedTopics, count: int = 2, **options: object) -> list[EmbeddedConsumer]:
    clients = [EmbeddedConsumer(groups, topics, "a", **options) for _ in range(count)]  # type: ignore[arg-type]  # options of a consumer
    settle(*clients)
    assert groups.machine.classic["g"].state is GroupState.STABLE
    return clients


def group_type(groups: Groups) -> str:
    (listed,) = list(groups.machine.listings())
    return listed.type


def commit(groups: Groups, client: ClassicClient, generation: int) -> ErrorCode:
    errors: list[Errors] = []
    target = TopicPartition("a", 0)
    by = client.group_client()._replace(generation=generation)
    groups.run(
        lambda machine, times: machine.commit(by, [CommittedOffset(target, 1, -1, "")], times, errors.append)
    )
    return errors[0][target]


# Upgrade


@pytest.mark.parametrize("is_cooperative", [False, True])
def test_members_of_both_protocols_share_the_partitions(
    groups: Groups, topics: FixedTopics, is_cooperative: bool
) -> None:
    classic = stable(groups, topics, is_cooperative=is_cooperative)
    newcomer = ConsumerClient(groups, "m", "a")
    assert newcomer.beat().error is ErrorCode.NONE
    assert newcomer.owned == frozenset(), "every partition still belongs to a classic member"
    settle(*classic, newcomer)
    assert group_type(groups) == "consumer"
    assert groups.machine.consumers.groups["g"].state == "Stable"
    assert [len(each.owned) for each in (*classic, newcomer)] == [2, 2, 2]
    assert all_owned(*classic, newcomer) == list(range(6))


def test_upgrade_keeps_members_at_their_generation_and_assignment(
    groups: Groups, topics: FixedTopics
) -> None:
    classic = stable(groups, topics)
    before = {client.member_id: client.owned for client in classic}
    generation = classic[0].generation
    ConsumerClient(groups, "m", "a").beat()
    group = groups.machine.consumers.groups["g"]
    assert group.epoch == generation + 1
    for client in classic:
        member = group.members[client.member_id]
        assert (member.epoch, member.assigned) == (generation, before[client.member_id])
        assert member.classic is not None
        assert (member.classic.session_timeout_ms, member.classic.protocols) == (10_000, client.protocols)
    assert "g" not in groups.machine.classic


def test_upgraded_group_survives_its_coordinator(groups: Groups, topics: FixedTopics) -> None:
    classic = stable(groups, topics)
    newcomer = ConsumerClient(groups, "m", "a")
    newcomer.beat()
    before = groups.machine.consumers.groups
    groups.fail_over()
    assert groups.machine.consumers.groups == before
    assert not groups.machine.classic
    settle(*classic, newcomer)
    assert all_owned(*classic, newcomer) == list(range(6))
    values = [each.value for each in groups.log.records("group") if isinstance(each, LoadedRecord)]
    members = [each for each in values if isinstance(each, ConsumerGroupMemberMetadataValue)]
    assert {each.classic_member_metadata is None for each in members} == {True, False}


def test_rebalancing_group_is_upgraded(groups: Groups, topics: FixedTopics) -> None:
    """Members that wait for others must join again, and every partition is assigned."""
    first, second = stable(groups, topics)
    third = EmbeddedConsumer(groups, topics, "a", needs_member_id=False)
    third.step()
    first.step()
    first.step()
    assert groups.machine.classic["g"].state is GroupState.PREPARING_REBALANCE
    newcomer = ConsumerClient(groups, "m", "a")
    newcomer.beat()
    assert first.joined is not None
    assert first.joined.error is ErrorCode.REBALANCE_IN_PROGRESS
    settle(first, second, third, newcomer)
    assert all_owned(first, second, third, newcomer) == list(range(6))


def test_cooperative_member_keeps_partitions_that_it_is_revoking(groups: Groups, topics: FixedTopics) -> None:
    """It has its assignment, but may still own what it reported when it joined, until it joins again."""
    first = EmbeddedConsumer(groups, topics, "a", is_cooperative=True)
    settle(first)
    second = EmbeddedConsumer(groups, topics, "a", is_cooperative=True)
    for client in (second, second, first, first, first):
        client.step()
    assert (groups.machine.classic["g"].state, len(first.owned)) == (GroupState.STABLE, 3)
    newcomer = ConsumerClient(groups, "m", "a")
    for _ in range(3):
        newcomer.beat()
    assert newcomer.owned == frozenset()
    settle(first, second, newcomer)
    assert all_owned(first, second, newcomer) == list(range(6))


@pytest.mark.parametrize("is_stable", [True, False])
def test_downgraded_group_may_be_upgraded_again_before_it_rebalances(
    groups: Groups, topics: FixedTopics, is_stable: bool
) -> None:
    """Partitions stay with the member that owns them, not with the member that was to get them."""
    first = EmbeddedConsumer(groups, topics, "a", is_cooperative=True)
    consumer = ConsumerClient(groups, "m", "a")
    settle(first, consumer)
    second = EmbeddedConsumer(groups, topics, "a", is_cooperative=True)
    if is_stable:
        settle(first, second, consumer)
    else:
        second.step()
        second.step()
    owned = first.owned
    consumer.beat(epoch=LEAVING)
    again = ConsumerClient(groups, "n", "a")
    again.beat()
    members = groups.machine.consumers.groups["g"].members
    assert members[first.member_id].assigned == owned
    assert not again.owned & owned
    settle(first, second, again)
    assert all_owned(first, second, again) == list(range(6))


def test_upgrade_responds_to_waiting_syncs(groups: Groups, topics: FixedTopics) -> None:
    first, second = stable(groups, topics)
    third = EmbeddedConsumer(groups, topics, "a", needs_member_id=False)
    third.step()
    for client in (first, second, first, second):
        client.step()
    follower = next(each for each in (first, second, third) if not each.leads)
    follower.phase = "sync"
    follower.step()
    assert follower.synced is None
    newcomer = ConsumerClient(groups, "m", "a")
    newcomer.beat()
    assert follower.synced is not None
    assert follower.synced.error is ErrorCode.REBALANCE_IN_PROGRESS
    settle(first, second, third, newcomer)
    assert all_owned(first, second, third, newcomer) == list(range(6))


def test_group_without_members_is_converted_whatever_the_policy(topics: FixedTopics) -> None:
    groups = group_shard(policy("disabled"), topics)
    (classic,) = stable(groups, topics, 1)
    classic.leave()
    newcomer = ConsumerClient(groups, "m", "a")
    assert newcomer.beat().error is ErrorCode.NONE
    newcomer.beat(epoch=LEAVING)
    settle(classic)
    assert classic.owned == {(topic_id("a"), number) for number in range(6)}


def test_member_that_has_just_got_its_id_does_not_stop_a_consumer(
    groups: Groups, topics: FixedTopics
) -> None:
    """GROUP_ID_NOT_FOUND is fatal for librdkafka."""
    classic = EmbeddedConsumer(groups, topics, "a")
    assert classic.step() is ErrorCode.MEMBER_ID_REQUIRED
    newcomer = ConsumerClient(groups, "m", "a")
    assert newcomer.beat().error is ErrorCode.NONE
    settle(classic, newcomer)
    assert all_owned(classic, newcomer) == list(range(6))


@pytest.mark.parametrize("value", ["disabled", "downgrade"])
def test_policy_may_forbid_upgrades(topics: FixedTopics, value: str) -> None:
    groups = group_shard(policy(value), topics)
    classic = stable(groups, topics)
    result = ConsumerClient(groups, "m", "a").beat()
    assert (result.error, result.message is not None and value in result.message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        True,
    )
    assert [client.step() for client in classic] == [ErrorCode.NONE] * 2


def test_group_of_other_clients_is_not_upgraded(groups: Groups) -> None:
    """Their metadata contains no subscription."""
    stable_group(groups)
    assert ConsumerClient(groups, "m", "a").beat().error is ErrorCode.GROUP_ID_NOT_FOUND


def test_group_larger_than_the_maximum_is_not_upgraded(topics: FixedTopics) -> None:
    groups = group_shard(policy("bidirectional", consumer_max_size=1), topics)
    stable(groups, topics)
    assert ConsumerClient(groups, "m", "a").beat().error is ErrorCode.GROUP_ID_NOT_FOUND


def test_upgrade_bumps_the_epoch_without_topics_to_assign(groups: Groups, topics: FixedTopics) -> None:
    classic = EmbeddedConsumer(groups, topics, "missing")
    settle(classic)
    newcomer = ConsumerClient(groups, "m", "missing", instance_id="i")
    assert newcomer.beat().epoch == classic.generation + 1
    assert ConsumerClient(group_shard(topics=topics), "m", "missing").beat().epoch == 1


def test_only_a_joining_member_upgrades_a_group(groups: Groups, topics: FixedTopics) -> None:
    stable(groups, topics)
    assert ConsumerClient(groups, "m", "a").beat(epoch=1).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert group_type(groups) == "classic"


# Classic members of consumer groups


def test_classic_member_joins_a_consumer_group(groups: Groups, topics: FixedTopics) -> None:
    first = ConsumerClient(groups, "m", "a")
    first.beat()
    second = EmbeddedConsumer(groups, topics, "a")
    settle(second, first)
    assert (len(first.owned), len(second.owned)) == (3, 3)
    assert all_owned(first, second) == list(range(6))
    assert second.joined is not None
    assert (second.joined.leader, second.joined.members, second.joined.protocol) == ("", (), "range")


def test_disabled_policy_keeps_classic_members_out(topics: FixedTopics) -> None:
    groups = group_shard(policy("disabled"), topics)
    ConsumerClient(groups, "m", "a").beat()
    assert EmbeddedConsumer(groups, topics, "a").step() is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_joining_classic_member_is_checked(topics: FixedTopics) -> None:
    groups = group_shard(policy("bidirectional", consumer_max_size=2), topics)
    ConsumerClient(groups, "m", "a").beat()
    malformed = ClassicClient(groups, protocols=(("range", b"\0"),)).join()
    known = EmbeddedConsumer(groups, topics, "a")
    settle(known)
    other = EmbeddedConsumer(groups, topics, "a", protocol="sticky")
    assert malformed is not None
    assert malformed.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert other.step() is ErrorCode.GROUP_MAX_SIZE_REACHED
    known.protocol = "sticky"
    known.phase = "join"
    assert known.step() is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_classic_member_is_identified_by_id_and_epoch(groups: Groups, topics: FixedTopics) -> None:
    newcomer = ConsumerClient(groups, "m", "a")
    newcomer.beat()
    classic = EmbeddedConsumer(groups, topics, "a", instance_id="i")
    settle(classic, newcomer)
    generation, member_id = classic.generation, classic.member_id
    classic.generation = generation - 1
    assert classic.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    assert commit(groups, classic, generation - 1) is ErrorCode.ILLEGAL_GENERATION
    assert commit(groups, classic, generation) is ErrorCode.NONE
    classic.member_id = "x"
    assert classic.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    classic.instance_id, classic.member_id, classic.generation = None, "m", newcomer.epoch
    assert classic.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID, "it uses the consumer protocol"
    classic.member_id = member_id
    classic.protocols = (("sticky", b""),)
    synced = classic.sync()
    assert synced is not None
    assert synced.error is ErrorCode.NONE


@pytest.mark.parametrize("stops_at", ["join", "sync", "beat"])
def test_silent_classic_member_is_removed(groups: Groups, topics: FixedTopics, stops_at: str) -> None:
    """It has its session timeout, and its rebalance timeout to join again and to send SyncGroup."""
    newcomer = ConsumerClient(groups, "m", "a")
    newcomer.beat()
    classic = EmbeddedConsumer(groups, topics, "a", session_timeout_ms=10_000, rebalance_timeout_ms=20_000)
    settle(classic, newcomer)
    if stops_at != "beat":
        ConsumerClient(groups, "n", "a").beat()
        assert classic.step() is ErrorCode.REBALANCE_IN_PROGRESS
    if stops_at == "sync":
        classic.step()
    for _ in range(5):
        groups.pass_ms(4_500)
        newcomer.beat()
        if stops_at == "join":
            classic.heartbeat()
    assert classic.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_must_join_again_is_not_synced(groups: Groups, topics: FixedTopics) -> None:
    newcomer = ConsumerClient(groups, "m", "a")
    newcomer.beat()
    classic = EmbeddedConsumer(groups, topics, "a")
    settle(classic, newcomer)
    ConsumerClient(groups, "n", "a").beat()
    synced = classic.sync()
    assert synced is not None
    assert synced.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_member_joins_again_once_all_its_partitions_are_free(groups: Groups, topics: FixedTopics) -> None:
    """Eager members revoke everything when they join, so they join as seldom as possible."""
    owners = [ConsumerClient(groups, name, "a") for name in ("m", "n")]
    settle(*owners)
    classic = EmbeddedConsumer(groups, topics, "a")
    for _ in range(4):
        classic.step()
    assert (classic.phase, classic.owned) == ("beat", frozenset())
    for _ in range(3):
        owners[0].beat()
    assert classic.heartbeat() is ErrorCode.NONE, "one of its partitions is not free"
    for _ in range(3):
        owners[1].beat()
    assert classic.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    settle(classic, *owners)
    assert all_owned(classic, *owners) == list(range(6))


def test_assignment_is_returned_once_it_is_committed(groups: Groups, topics: FixedTopics) -> None:
    newcomer = ConsumerClient(groups, "m", "a")
    newcomer.beat()
    classic = EmbeddedConsumer(groups, topics, "a", needs_member_id=False)
    groups.log.is_replicating = False
    classic.step()
    assert classic.joined is None
    groups.replicate()
    assert classic.joined is not None
    assert classic.joined.error is ErrorCode.NONE


# Downgrade


@pytest.mark.parametrize("how", ["leaves", "is fenced", "is removed by an operator"])
def test_group_is_downgraded_with_its_last_consumer(groups: Groups, topics: FixedTopics, how: str) -> None:
    classic = stable(groups, topics, session_timeout_ms=60_000)
    consumers = [ConsumerClient(groups, name, "a") for name in ("m", "n")]
    settle(*classic, *consumers)
    consumers[0].beat(epoch=LEAVING)
    settle(*classic, consumers[1])
    assert group_type(groups) == "consumer"
    if how == "leaves":
        assert consumers[1].beat(epoch=LEAVING).error is ErrorCode.NONE
    elif how == "is fenced":
        groups.pass_ms(46_000)
    else:
        assert leave(groups, "g", [("n", None)]) == [ErrorCode.NONE]
    assert group_type(groups) == "classic"
    assert [each.step() for each in classic] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    settle(*classic)
    assert groups.machine.classic["g"].state is GroupState.STABLE
    assert all_owned(*classic) == list(range(6))


def test_downgraded_group_survives_its_coordinator(groups: Groups, topics: FixedTopics) -> None:
    """The partitions of the consumer that left are not left out, although the rebalance was lost."""
    classic = stable(groups, topics)
    consumer = ConsumerClient(groups, "m", "a")
    settle(*classic, consumer)
    consumer.beat(epoch=LEAVING)
    groups.fail_over()
    assert group_type(groups) == "classic"
    assert not groups.machine.consumers.groups
    settle(*classic)
    assert all_owned(*classic) == list(range(6))


def test_policy_may_forbid_downgrades(topics: FixedTopics) -> None:
    """The group stays a consumer group, and its classic members share the partitions of the one that left."""
    groups = group_shard(policy("upgrade"), topics)
    consumer = ConsumerClient(groups, "m", "a")
    consumer.beat()
    classic = EmbeddedConsumer(groups, topics, "a")
    settle(classic, consumer)
    consumer.beat(epoch=LEAVING)
    settle(classic)
    assert (group_type(groups), all_owned(classic)) == ("consumer", list(range(6)))


def test_group_larger_than_the_classic_maximum_is_not_downgraded(topics: FixedTopics) -> None:
    groups = group_shard(policy("bidirectional", max_size=1), topics)
    consumer = ConsumerClient(groups, "m", "a")
    consumer.beat()
    classic = [EmbeddedConsumer(groups, topics, "a") for _ in range(2)]
    settle(*classic, consumer)
    consumer.beat(epoch=LEAVING)
    assert group_type(groups) == "consumer"


def test_group_that_loses_all_members_is_not_downgraded(groups: Groups, topics: FixedTopics) -> None:
    consumer = ConsumerClient(groups, "m", "a")
    classic = EmbeddedConsumer(groups, topics, "a")
    settle(consumer, classic)
    assert leave(groups, "g", [("m", None), (classic.member_id, None)]) == [ErrorCode.NONE] * 2
    assert (group_type(groups), groups.machine.consumers.groups["g"].state) == ("consumer", "Empty")


def test_leaving_members_are_checked(groups: Groups, topics: FixedTopics) -> None:
    consumer = ConsumerClient(groups, "m", "a")
    classic = EmbeddedConsumer(groups, topics, "a", instance_id="i")
    settle(consumer, classic)
    leaving = [("x", None), ("x", "i"), ("", "j"), ("", "i")]
    assert leave(groups, "g", leaving) == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
    assert leave(groups, "g", [("x", None)]) == [ErrorCode.UNKNOWN_MEMBER_ID]


# Static members


def test_static_member_changes_its_protocol(groups: Groups, topics: FixedTopics) -> None:
    """It restarts with the other protocol without leaving, and keeps its partitions; so does the way back."""
    first, second = (EmbeddedConsumer(groups, topics, "a", instance_id=each) for each in "ij")
    settle(first, second)
    before = first.owned
    consumer = ConsumerClient(groups, "m", "a", instance_id="i")
    assert consumer.beat().error is ErrorCode.NONE
    assert consumer.owned == before
    assert first.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    settle(consumer, second)
    back = EmbeddedConsumer(groups, topics, "a", instance_id="i")
    assert back.step() is ErrorCode.NONE
    assert group_type(groups) == "classic"
    assert groups.machine.classic["g"].state is GroupState.STABLE, "no rebalance is needed"
    back.step()
    assert back.owned == before
    assert second.step() is ErrorCode.NONE
    groups.fail_over()
    assert [back.step(), second.step()] == [ErrorCode.NONE] * 2


def test_static_member_that_changes_its_subscription_rebalances_the_downgraded_group(
    groups: Groups, topics: FixedTopics
) -> None:
    topics.create("b", 2)
    classic = EmbeddedConsumer(groups, topics, "a", instance_id="i")
    consumer = ConsumerClient(groups, "m", "a", instance_id="j")
    settle(classic, consumer)
    back = EmbeddedConsumer(groups, topics, "a", "b", instance_id="j")
    back.step()
    assert groups.machine.classic["g"].state is GroupState.PREPARING_REBALANCE
    settle(classic, back)
    assert {(topic_id("b"), 0), (topic_id("b"), 1)} <= back.owned
    assert len(classic.owned | back.owned) == 8


def test_unreleased_instance_id_of_the_same_protocol_is_in_use(groups: Groups, topics: FixedTopics) -> None:
    ConsumerClient(groups, "m", "a", instance_id="i").beat()
    assert ConsumerClient(groups, "n", "a", instance_id="i").beat().error is ErrorCode.UNRELEASED_INSTANCE_ID
