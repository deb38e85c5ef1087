"""Classic groups: joining, generations, sessions, static members and leaving."""

from __future__ import annotations

import pytest

from quorumd.broker.coordinator.classic_group import ClassicGroup, ClassicMember, GroupState
from quorumd.broker.coordinator.classic_membership import Sync
from quorumd.broker.coordinator.classic_rebalance import MAX_PENDING
from quorumd.broker.coordinator.shards import EXPIRED_PER_SLICE
from quorumd.broker.settings.coordinator_settings import GroupSettings
from quorumd.errors import ErrorCode
from tests.support.broker.classic_members import ClassicClient, Groups, assign, leave, stable_group
from tests.support.broker.coordinator_shards import group_shard


@pytest.fixture
def groups() -> Groups:
    return group_shard()


def state(groups: Groups) -> GroupState:
    return groups.machine.classic["g"].state


def test_member_that_is_added_again_supports_only_its_new_protocols() -> None:
    group = ClassicGroup("g", 0)
    for name in ("range", "sticky"):
        group.add(ClassicMember("a", None, "client", "/", 1, 1, ((name, b""),)), "consumer")
    assert group.candidates() == ["sticky"]
    assert not group.supports("consumer", (("range", b""),))


def test_client_gets_a_member_id_before_it_joins(groups: Groups) -> None:
    client = ClassicClient(groups, needs_member_id=True)
    first = client.join()
    assert first is not None
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    second = client.join()
    assert second is not None
    assert second.error is ErrorCode.NONE
    assert second.member_id == first.member_id == second.leader
    assert second.generation == 1


def test_unused_member_id_expires_with_the_group(groups: Groups) -> None:
    client = ClassicClient(groups, needs_member_id=True)
    client.join()
    groups.pass_ms(client.session_timeout_ms)
    assert "g" not in groups.machine.classic
    joined = client.join()
    assert joined is not None
    assert joined.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_unused_member_id_is_replaced_by_many_later_ones(groups: Groups) -> None:
    first, used = (ClassicClient(groups, needs_member_id=True, group=name) for name in ("first", "used"))
    for client in (first, used, used):
        client.join()
    for number in range(MAX_PENDING):
        ClassicClient(groups, needs_member_id=True, group=f"g{number}").join()
    assert "first" not in groups.machine.classic
    assert {"used", "g0"} < set(groups.machine.classic)
    assert len(groups.machine.classic) == MAX_PENDING + 1
    joined = first.join()
    assert joined is not None
    assert joined.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_deadlines_that_pass_together_are_handled_in_slices(groups: Groups) -> None:
    for number in range(2 * EXPIRED_PER_SLICE + 1):
        ClassicClient(groups, needs_member_id=True, group=f"g{number}").join()
    remaining = {len(groups.machine.classic)}
    until_ms = groups.time.heap.now_ms + 10_000
    while groups.time.heap.step(until_ms):
        remaining.add(len(groups.machine.classic))
    assert remaining == {2 * EXPIRED_PER_SLICE + 1, EXPIRED_PER_SLICE + 1, 1, 0}


def test_empty_group_waits_for_further_members() -> None:
    groups = group_shard(GroupSettings(initial_rebalance_delay_ms=3_000))
    first, second = ClassicClient(groups), ClassicClient(groups)
    first.join()
    groups.pass_ms(2_000)
    second.join()
    groups.pass_ms(1_000)
    assert first.joined is None, "a member joined during the delay, so it is extended"
    groups.pass_ms(3_000)
    assert first.joined is not None
    assert second.joined is not None
    assert first.joined.generation == second.joined.generation == 1
    assert len(first.joined.members) == 2
    assert second.joined.members == ()


def test_initial_delay_ends_at_the_rebalance_timeout() -> None:
    groups = group_shard(GroupSettings(initial_rebalance_delay_ms=3_000))
    clients = [ClassicClient(groups, rebalance_timeout_ms=5_000) for _ in range(4)]
    for client in clients[:3]:
        client.join()
        groups.pass_ms(2_400)
    assert all(client.joined is not None for client in clients[:2])


def test_protocol_of_most_members_is_selected(groups: Groups) -> None:
    first = ClassicClient(groups, protocols=(("range", b"r"), ("sticky", b"s"), ("only-first", b"")))
    second = ClassicClient(groups, protocols=(("sticky", b"s"), ("range", b"r")))
    third = ClassicClient(groups, protocols=(("sticky", b"s"), ("range", b"r")))
    first.join()
    second.join()
    third.join()
    first.join()
    assert {client.joined.protocol for client in (first, second, third) if client.joined} == {"sticky"}
    assert first.joined is not None
    assert {member[2] for member in first.joined.members} == {b"s"}


def test_member_without_a_common_protocol_is_refused(groups: Groups) -> None:
    stable_group(groups, 1)
    other = ClassicClient(groups, protocols=(("sticky", b""),)).join()
    assert other is not None
    assert other.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("leaves", [True, False])
def test_protocol_is_common_once_the_member_without_it_has_left_or_supports_it(
    groups: Groups, leaves: bool
) -> None:
    first = ClassicClient(groups, protocols=(("range", b""), ("sticky", b"")))
    second = ClassicClient(groups, protocols=(("range", b""),))
    third = ClassicClient(groups, protocols=(("sticky", b""),))
    for client in (first, second, first):
        client.join()
    refused = third.join()
    assert refused is not None
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if leaves:
        second.leave()
    else:
        second.protocols = first.protocols
        second.join()
    assert third.join() is None, "it waits for the others"
    first.join()
    assert third.joined is not None
    assert third.joined.protocol == "sticky"


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001])
def test_session_timeout_has_bounds(groups: Groups, timeout_ms: int) -> None:
    joined = ClassicClient(groups, session_timeout_ms=timeout_ms).join()
    assert joined is not None
    assert joined.error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_full_group_refuses_members_and_member_ids() -> None:
    groups = group_shard(GroupSettings(initial_rebalance_delay_ms=0, max_size=2))
    ClassicClient(groups).join()
    ClassicClient(groups, needs_member_id=True).join()
    third = ClassicClient(groups, needs_member_id=True).join()
    assert third is not None
    assert third.error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_every_member_gets_its_assignment_from_the_leader(groups: Groups) -> None:
    first, second = stable_group(groups)
    for client in (first, second):
        assert client.synced is not None
        assert client.synced.error is ErrorCode.NONE
        assert client.synced.assignment == client.member_id.encode()
    assert state(groups) is GroupState.STABLE


def test_assignment_waits_until_it_is_replicated(groups: Groups) -> None:
    client = ClassicClient(groups)
    client.join()
    groups.log.is_replicating = False
    assert client.sync({client.member_id: b"a"}) is None
    assert state(groups) is GroupState.COMPLETING_REBALANCE
    groups.replicate()
    assert client.synced is not None
    assert client.synced.assignment == b"a"


def test_refused_assignment_begins_a_rebalance(groups: Groups) -> None:
    client = ClassicClient(groups)
    client.join()
    groups.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    synced = client.sync({client.member_id: b"a"})
    assert synced is not None
    assert synced.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert state(groups) is GroupState.PREPARING_REBALANCE


def test_new_member_begins_a_generation(groups: Groups) -> None:
    first, second = stable_group(groups)
    third = ClassicClient(groups)
    assert third.join() is None
    assert first.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    first.join()
    second.join()
    assert third.joined is not None
    assert third.joined.generation == first.generation == second.generation
    assert first.heartbeat() is ErrorCode.NONE


def test_member_that_does_not_join_again_is_removed_at_the_rebalance_timeout(groups: Groups) -> None:
    first, second = stable_group(groups)
    third = ClassicClient(groups)
    third.join()
    first.join()
    for _ in range(3):
        groups.pass_ms(5_000)
        assert second.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    groups.pass_ms(5_000)
    assert first.joined is not None
    assert len(groups.machine.classic["g"].members) == 2
    assert second.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_does_not_sync_is_removed_at_the_rebalance_timeout(groups: Groups) -> None:
    client = ClassicClient(groups, session_timeout_ms=30_000)
    client.join()
    groups.pass_ms(20_000)
    assert "g" not in groups.machine.classic
    assert client.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_expired_session_begins_a_rebalance(groups: Groups) -> None:
    first, second = stable_group(groups)
    groups.pass_ms(6_000)
    first.heartbeat()
    groups.pass_ms(6_000)
    assert second.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert first.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_leader_that_joins_again_begins_a_rebalance_and_a_follower_does_not(groups: Groups) -> None:
    first, second = stable_group(groups)
    generation = second.generation
    again = second.join()
    assert again is not None
    assert again.generation == generation
    assert again.leader == first.member_id
    assert first.join() is None
    assert state(groups) is GroupState.PREPARING_REBALANCE


def test_follower_with_another_subscription_begins_a_rebalance(groups: Groups) -> None:
    _, second = stable_group(groups)
    second.protocols = (("range", b"other topics"),)
    assert second.join() is None
    assert state(groups) is GroupState.PREPARING_REBALANCE


def test_generation_and_member_are_checked(groups: Groups) -> None:
    first, _ = stable_group(groups)
    first.generation -= 1
    assert first.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    synced = first.sync()
    assert synced is not None
    assert synced.error is ErrorCode.ILLEGAL_GENERATION
    first.member_id = "another"
    assert first.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_last_member_that_leaves_empties_the_group(groups: Groups) -> None:
    first, second = stable_group(groups)
    assert first.leave() is ErrorCode.NONE
    assert first.leave() is ErrorCode.UNKNOWN_MEMBER_ID
    second.leave()
    assert state(groups) is GroupState.EMPTY
    groups.fail_over()
    assert state(groups) is GroupState.EMPTY
    assert groups.machine.classic["g"].protocol_type == "consumer"


def test_member_that_does_not_find_the_new_coordinator_is_removed(groups: Groups) -> None:
    clients = stable_group(groups, 2)
    groups.fail_over()
    groups.pass_ms(clients[0].session_timeout_ms - 1)
    assert len(groups.machine.classic["g"].members) == 2
    groups.pass_ms(1)
    assert not groups.machine.classic["g"].members


# Static members (KIP-345)


def test_restarted_static_member_keeps_its_assignment_without_a_rebalance(groups: Groups) -> None:
    follower_of = stable_group(groups, 1)
    static = ClassicClient(groups, instance_id="i")
    static.join()
    follower_of[0].join()
    assign([follower_of[0], static])
    before = static.member_id
    restarted = ClassicClient(groups, instance_id="i")
    joined = restarted.join()
    assert joined is not None
    assert joined.error is ErrorCode.NONE
    assert joined.member_id != before
    assert joined.generation == static.generation
    assert joined.leader == follower_of[0].member_id
    synced = restarted.sync()
    assert synced is not None
    assert synced.assignment == before.encode()
    assert static.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    groups.fail_over()
    assert restarted.heartbeat() is ErrorCode.NONE


def test_restarted_static_leader_skips_the_assignment(groups: Groups) -> None:
    (static,) = stable_group(groups, 1, instance_id="i")
    restarted = ClassicClient(groups, instance_id="i")
    joined = restarted.join()
    assert joined is not None
    assert joined.skip_assignment
    assert joined.leader == joined.member_id
    assert [member[0] for member in joined.members] == [joined.member_id]
    older = ClassicClient(groups, instance_id="i")
    joined = older.join(can_skip_assignment=False)
    assert joined is not None
    assert not joined.skip_assignment
    assert joined.leader == restarted.member_id
    assert joined.members == ()
    assert static.heartbeat() is ErrorCode.FENCED_INSTANCE_ID


def test_refused_record_of_a_static_member_restores_the_previous_one(groups: Groups) -> None:
    (static,) = stable_group(groups, 1, instance_id="i")
    groups.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    joined = ClassicClient(groups, instance_id="i").join()
    assert joined is not None
    assert joined.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert static.heartbeat() is ErrorCode.NONE


def test_static_member_with_another_subscription_begins_a_rebalance(groups: Groups) -> None:
    stable_group(groups, 1, instance_id="i")
    restarted = ClassicClient(groups, instance_id="i", protocols=(("range", b"other"),))
    joined = restarted.join()
    assert joined is not None
    assert joined.generation == 2


def test_static_member_survives_a_rebalance_that_it_misses(groups: Groups) -> None:
    (static,) = stable_group(groups, 1, instance_id="i", session_timeout_ms=60_000)
    other = ClassicClient(groups, session_timeout_ms=60_000)
    other.join()
    groups.pass_ms(static.rebalance_timeout_ms)
    assert other.joined is not None
    assert other.leads
    assert static.member_id in groups.machine.classic["g"].members


def test_static_member_is_removed_by_its_instance_id(groups: Groups) -> None:
    (static,) = stable_group(groups, 1, instance_id="i")
    member_id, static.member_id = static.member_id, ""
    assert static.leave() is ErrorCode.NONE
    assert member_id not in groups.machine.classic["g"].members


# Failover


def test_members_survive_a_failover(groups: Groups) -> None:
    first, second = stable_group(groups)
    groups.fail_over()
    assert first.heartbeat() is ErrorCode.NONE
    again = second.sync()
    assert again is not None
    assert again.assignment == second.member_id.encode()
    groups.pass_ms(9_000)
    assert second.heartbeat() is ErrorCode.NONE
    groups.pass_ms(9_000)
    assert first.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID, "sessions begin when the log is loaded"


def test_waiting_members_are_sent_to_the_next_coordinator(groups: Groups) -> None:
    first, second = stable_group(groups)
    third = ClassicClient(groups)
    third.join()
    groups.shards.resigned(0)
    assert third.joined is not None
    assert third.joined.error is ErrorCode.NOT_COORDINATOR
    assert groups.shards.active(0) is ErrorCode.NOT_COORDINATOR
    del first, second


def test_assignment_that_is_not_replicated_is_not_given(groups: Groups) -> None:
    client = ClassicClient(groups)
    client.join()
    groups.log.is_replicating = False
    client.sync({client.member_id: b"a"})
    groups.shards.resigned(0)
    assert client.synced is not None
    assert client.synced.error is ErrorCode.NOT_COORDINATOR


def sync_error(client: ClassicClient, **changes: object) -> ErrorCode:
    """The error of a SyncGroup that differs from the client's own."""
    sync = Sync(client.group, client.generation, client.member_id, client.instance_id, "consumer", None, {})
    results: list[ErrorCode] = []
    changed = sync._replace(**changes)  # type: ignore[arg-type]  # fields of Sync
    client.groups.run(
        lambda machine, times: machine.sync(changed, times, lambda result: results.append(result.error))
    )
    return results[0]


def test_sync_is_checked(groups: Groups) -> None:
    (client,) = stable_group(groups, 1)
    assert sync_error(client, group="unknown") is ErrorCode.UNKNOWN_MEMBER_ID
    assert sync_error(client, member_id="x") is ErrorCode.UNKNOWN_MEMBER_ID
    assert sync_error(client, instance_id="x") is ErrorCode.UNKNOWN_MEMBER_ID
    assert sync_error(client, protocol_type="connect") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sync_error(client, protocol="sticky") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert sync_error(client) is ErrorCode.NONE
    ClassicClient(groups).join()
    assert sync_error(client) is ErrorCode.REBALANCE_IN_PROGRESS


def test_group_id_of_a_member_must_not_be_empty(groups: Groups) -> None:
    joined = ClassicClient(groups, group="").join()
    assert joined is not None
    assert joined.error is ErrorCode.INVALID_GROUP_ID


def test_leaving_member_is_checked(groups: Groups) -> None:
    client = ClassicClient(groups, instance_id="i")
    client.join()
    leaving = [("x", None), ("x", "i"), ("", "j"), (client.member_id, "i")]
    assert leave(groups, "g", leaving) == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
    ]
