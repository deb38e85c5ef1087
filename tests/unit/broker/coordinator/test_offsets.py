"""Committed offsets: commits, transactions, reads, deletion and expiry."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from quorumd.broker.coordinator.groups import GROUPS_PER_CHECK, GroupClient
from quorumd.broker.coordinator.offset_requests import CommittedOffset, Errors, FetchedOffset
from quorumd.broker.coordinator.offset_store import TopicPartition
from quorumd.broker.coordinator.records import LoadedMarker
from quorumd.broker.coordinator.shards import EXPIRED_PER_SLICE, RECORDS_PER_SLICE
from quorumd.broker.settings.coordinator_settings import GroupSettings
from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid
from tests.support.broker.classic_members import ClassicClient, Groups, stable_group
from tests.support.broker.coordinator_shards import FixedTopics, group_shard

T0 = TopicPartition("topic", 0)
T1 = TopicPartition("topic", 1)
SIMPLE = GroupClient("g")
DAY_MS = 86_400_000


@pytest.fixture
def groups() -> Groups:
    return group_shard()


def commit(
    groups: Groups,
    offset: int,
    committer: GroupClient = SIMPLE,
    target: TopicPartition = T0,
    metadata: str = "",
    producer_id: int = -1,
    retention_ms: int = -1,
) -> list[Errors]:
    responses: list[Errors] = []
    offsets = [CommittedOffset(target, offset, 3, metadata)]
    groups.run(
        lambda machine, times: machine.commit(
            committer, offsets, times, responses.append, retention_ms, producer_id, producer_epoch=0
        )
    )
    return responses


def fetch(
    groups: Groups, targets: Sequence[TopicPartition] | None = (T0,), require_stable: bool = False
) -> list[FetchedOffset]:
    responses: list[FetchedOffset] = []
    groups.run(
        lambda machine, times: machine.fetch_offsets(
            SIMPLE, targets, require_stable, times, lambda error, offsets: responses.extend(offsets)
        )
    )
    return responses


def end_transaction(groups: Groups, producer_id: int, is_commit: bool) -> None:
    marker = LoadedMarker(99, producer_id, 0, is_commit)
    groups.run(lambda machine, times: machine.replay_marker(marker, times))


def test_client_without_membership_commits_to_an_empty_group(groups: Groups) -> None:
    assert commit(groups, 7, metadata="text") == [{T0: ErrorCode.NONE}]
    assert fetch(groups) == [FetchedOffset(T0, 7, 3, "text")]
    assert fetch(groups, None) == [FetchedOffset(T0, 7, 3, "text")]
    assert fetch(groups, [T1]) == [FetchedOffset(T1)]
    assert next(groups.machine.listings()).state == "Empty"


def test_offsets_survive_a_failover(groups: Groups) -> None:
    for offset in range(700):
        commit(groups, offset, target=TopicPartition("topic", offset % 3))
    groups.fail_over()
    assert [each.offset for each in fetch(groups, None)] == [699, 697, 698]


def test_offset_is_not_visible_before_it_is_replicated(groups: Groups) -> None:
    commit(groups, 1)
    groups.log.is_replicating = False
    responses = commit(groups, 2)
    fetched = fetch(groups)
    assert responses == []
    assert fetched == []
    groups.replicate()
    assert responses == [{T0: ErrorCode.NONE}]
    assert fetched == [FetchedOffset(T0, 2, 3, "")]


def test_commit_times_out_without_replication(groups: Groups) -> None:
    groups.log.is_replicating = False
    responses = commit(groups, 2)
    groups.pass_ms(5_000)
    assert responses == [{T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}]


def test_refused_append_changes_nothing(groups: Groups) -> None:
    commit(groups, 1)
    groups.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert commit(groups, 2) == [{T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}]
    assert fetch(groups)[0].offset == 1


def test_metadata_has_a_maximal_size(groups: Groups) -> None:
    assert commit(groups, 1, metadata="x" * 4_096) == [{T0: ErrorCode.NONE}]
    assert commit(groups, 2, metadata="é" * 4_096) == [{T0: ErrorCode.NONE}], "characters count, not bytes"
    for longer in ("x" * 4_097, "x" * 4_095 + "\U0001f600"):
        assert commit(groups, 3, metadata=longer) == [{T0: ErrorCode.OFFSET_METADATA_TOO_LARGE}]


def test_commit_of_a_member_is_checked(groups: Groups) -> None:
    first, _ = stable_group(groups)
    member = first.group_client()
    assert commit(groups, 1, member) == [{T0: ErrorCode.NONE}]
    assert commit(groups, 1, member._replace(generation=1)) == [{T0: ErrorCode.ILLEGAL_GENERATION}]
    assert commit(groups, 1, member._replace(member_id="x")) == [{T0: ErrorCode.UNKNOWN_MEMBER_ID}]
    assert commit(groups, 1) == [{T0: ErrorCode.UNKNOWN_MEMBER_ID}]
    unknown = GroupClient("unknown", "member", None, 3)
    assert commit(groups, 1, unknown) == [{T0: ErrorCode.ILLEGAL_GENERATION}]
    ClassicClient(groups).join()
    assert commit(groups, 2, member) == [{T0: ErrorCode.NONE}], "until the member joins again"


def test_commit_waits_for_the_assignment(groups: Groups) -> None:
    client = ClassicClient(groups)
    client.join()
    assert commit(groups, 1, client.group_client()) == [{T0: ErrorCode.REBALANCE_IN_PROGRESS}]


# Transactions


def test_offsets_of_a_transaction_wait_for_its_end(groups: Groups) -> None:
    commit(groups, 1)
    commit(groups, 5, producer_id=9)
    assert fetch(groups)[0].offset == 1
    assert fetch(groups, require_stable=True)[0].error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    end_transaction(groups, 9, is_commit=True)
    assert fetch(groups, require_stable=True)[0].offset == 5


def test_offsets_of_an_aborted_transaction_are_dropped(groups: Groups) -> None:
    commit(groups, 1)
    commit(groups, 5, producer_id=9)
    end_transaction(groups, 9, is_commit=False)
    assert fetch(groups, require_stable=True)[0].offset == 1


def test_commit_after_that_of_a_transaction_is_newer(groups: Groups) -> None:
    commit(groups, 5, producer_id=9)
    commit(groups, 6)
    end_transaction(groups, 9, is_commit=True)
    assert fetch(groups)[0].offset == 6


def test_open_transaction_survives_a_failover(groups: Groups) -> None:
    commit(groups, 5, producer_id=9)
    groups.fail_over()
    assert fetch(groups, require_stable=True)[0].error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    end_transaction(groups, 9, is_commit=True)
    assert fetch(groups)[0].offset == 5


# Deletion and expiry


def delete_offsets(groups: Groups, *targets: TopicPartition) -> tuple[ErrorCode, Errors]:
    responses: list[tuple[ErrorCode, Errors]] = []
    groups.run(
        lambda machine, times: machine.delete_offsets("g", targets, lambda *result: responses.append(result))
    )
    return responses[0]


def test_offsets_of_subscribed_topics_are_not_deleted(groups: Groups) -> None:
    topics = b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x05topic" + b"\xff\xff\xff\xff"
    (client,) = stable_group(groups, 1, protocols=(("range", topics),))
    other = TopicPartition("other", 0)
    commit(groups, 1, client.group_client())
    commit(groups, 1, client.group_client(), other)
    error, errors = delete_offsets(groups, T0, other)
    assert error is ErrorCode.NONE
    assert errors == {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, other: ErrorCode.NONE}
    assert [each.target for each in fetch(groups, None)] == [T0]


def test_offsets_of_an_unknown_group_are_not_found(groups: Groups) -> None:
    assert delete_offsets(groups, T0) == (ErrorCode.GROUP_ID_NOT_FOUND, {})


def delete_group(groups: Groups) -> ErrorCode:
    responses: list[ErrorCode] = []
    groups.run(lambda machine, times: machine.delete_group("g", responses.append))
    return responses[0]


def test_only_a_group_without_members_is_deleted(groups: Groups) -> None:
    assert delete_group(groups) is ErrorCode.GROUP_ID_NOT_FOUND
    (client,) = stable_group(groups, 1)
    commit(groups, 1, client.group_client())
    assert delete_group(groups) is ErrorCode.NON_EMPTY_GROUP
    client.leave()
    assert delete_group(groups) is ErrorCode.NONE
    assert list(groups.machine.listings()) == []
    groups.fail_over()
    assert list(groups.machine.listings()) == []
    assert fetch(groups, None) == []


def test_retention_begins_when_the_last_member_leaves() -> None:
    groups = group_shard(
        GroupSettings(
            initial_rebalance_delay_ms=0, offsets_retention_ms=DAY_MS, max_session_timeout_ms=9 * DAY_MS
        )
    )
    (client,) = stable_group(groups, 1, session_timeout_ms=9 * DAY_MS)
    commit(groups, 1, client.group_client())
    groups.pass_ms(2 * DAY_MS)
    assert fetch(groups)[0].offset == 1
    client.leave()
    groups.pass_ms(DAY_MS - 700_000)
    assert fetch(groups)[0].offset == 1
    groups.pass_ms(1_400_000)
    assert fetch(groups)[0].offset == -1
    assert list(groups.machine.listings()) == [], "the group goes with its last offset"
    groups.fail_over()
    assert list(groups.machine.listings()) == []


def test_offsets_without_membership_expire_after_their_commit() -> None:
    groups = group_shard(GroupSettings(offsets_retention_ms=DAY_MS))
    commit(groups, 1)
    groups.pass_ms(DAY_MS - 700_000)
    commit(groups, 2, target=T1)
    groups.pass_ms(1_400_000)
    assert [each.target for each in fetch(groups, None)] == [T1]


def test_retention_in_a_commit_takes_precedence() -> None:
    groups = group_shard(GroupSettings(offsets_retention_ms=9 * DAY_MS))
    commit(groups, 1, retention_ms=DAY_MS)
    commit(groups, 2, target=T1)
    groups.fail_over()
    groups.pass_ms(DAY_MS - 700_000)
    assert [each.target for each in fetch(groups, None)] == [T0, T1]
    groups.pass_ms(1_400_000)
    assert [each.target for each in fetch(groups, None)] == [T1]


def test_offsets_of_deleted_topics_are_deleted(groups: Groups) -> None:
    commit(groups, 1)
    commit(groups, 1, target=TopicPartition("other", 0))
    groups.run(lambda machine, times: machine.delete_topics(frozenset({"topic"}), times))
    assert [each.target.topic for each in fetch(groups, None)] == ["other"]


@pytest.mark.parametrize(
    "metadata", [b"", b"\x00", b"\x00\x00\x00\x00\x00\x09topic", b"\x00\x00\x7f\xff\xff\xff"]
)
def test_offsets_of_members_with_unknown_subscriptions_are_kept(groups: Groups, metadata: bytes) -> None:
    (client,) = stable_group(groups, 1, protocols=(("range", metadata),))
    commit(groups, 1, client.group_client())
    assert delete_offsets(groups, T0) == (ErrorCode.NON_EMPTY_GROUP, {})
    assert fetch(groups)[0].offset == 1


def test_refused_deletion_is_reported(groups: Groups) -> None:
    commit(groups, 1)
    groups.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    error, errors = delete_offsets(groups, T0, T1)
    assert (error, errors[T1]) == (ErrorCode.NONE, ErrorCode.NONE), "there is nothing to delete"
    assert errors[T0] is not ErrorCode.NONE
    assert fetch(groups)[0].offset == 1


def test_offset_in_an_open_transaction_does_not_expire() -> None:
    groups = group_shard(GroupSettings(offsets_retention_ms=DAY_MS))
    commit(groups, 1)
    commit(groups, 2, producer_id=9)
    groups.pass_ms(3 * DAY_MS)
    assert [each.offset for each in fetch(groups)] == [1]
    end_transaction(groups, 9, is_commit=False)
    groups.pass_ms(DAY_MS)
    assert [each.offset for each in fetch(groups)] == [-1]


def test_large_log_is_loaded_in_slices(groups: Groups) -> None:
    targets = [TopicPartition("topic", number) for number in range(RECORDS_PER_SLICE + 5)]
    for target in targets:
        commit(groups, target.partition, target=target)
    end_transaction(groups, 9, is_commit=True)
    groups.shards.resigned(0)
    groups.shards.elected(groups.log)
    assert groups.shards.active(0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    groups.shards.high_watermark_advanced(0)
    groups.shards.elected(groups.log)
    groups.time.end_turn()
    assert len(fetch(groups, None)) == len(targets)


def test_loading_ends_with_the_leadership(groups: Groups) -> None:
    for number in range(RECORDS_PER_SLICE + 5):
        commit(groups, 1, target=TopicPartition("topic", number))
    groups.shards.resigned(0)
    groups.shards.elected(groups.log)
    groups.shards.resigned(0)
    groups.shards.resigned(0)
    groups.shards.high_watermark_advanced(0)
    groups.time.end_turn()
    assert groups.shards.active(0) is ErrorCode.NOT_COORDINATOR


def test_offsets_that_expire_together_are_deleted_in_slices() -> None:
    """Clients make up the names of groups: a hundred thousand of them expired in one turn."""
    groups = group_shard(GroupSettings(offsets_retention_ms=1_200_000))
    at_once = GROUPS_PER_CHECK * EXPIRED_PER_SLICE
    for number in range(3 * at_once):
        commit(groups, 1, GroupClient(f"group {number}"))
    remaining = [len(groups.machine.offsets.groups())]
    until_ms = groups.time.heap.now_ms + 2_000_000
    while groups.time.heap.step(until_ms):
        remaining.append(len(groups.machine.offsets.groups()))
    assert remaining[0] == 3 * at_once
    assert remaining[-1] == 0
    assert max(before - after for before, after in pairwise(remaining)) <= at_once


def test_groups_with_committed_and_pending_offsets(groups: Groups) -> None:
    commit(groups, 1, GroupClient("a"))
    commit(groups, 1, GroupClient("b"), producer_id=5)
    commit(groups, 1, GroupClient("a"), producer_id=5)
    assert groups.machine.offsets.groups() == ["a", "b"]
    assert [listing.group for listing in groups.machine.listings() if listing is not None] == ["a"]


def test_offsets_of_deleted_topics_are_deleted_in_slices() -> None:
    """Clients make up the names of groups: for 5,000 of them one turn took 95 ms."""
    groups = group_shard()
    at_once = GROUPS_PER_CHECK * EXPIRED_PER_SLICE
    for number in range(3 * at_once):
        commit(groups, 1, GroupClient(f"group {number}"))
    remaining = [len(groups.machine.offsets.groups())]
    groups.run(lambda machine, times: machine.delete_topics(frozenset({"topic"}), times))
    remaining.append(len(groups.machine.offsets.groups()))
    until_ms = groups.time.heap.now_ms + 1000
    while groups.time.heap.step(until_ms):
        remaining.append(len(groups.machine.offsets.groups()))
    assert (remaining[0], remaining[-1]) == (3 * at_once, 0)
    assert max(before - after for before, after in pairwise(remaining)) <= at_once


def test_offsets_of_a_topic_that_is_created_again_stay() -> None:
    """Its name was deleted before, and the deletion of the offsets may not have reached the group yet."""
    topics = FixedTopics()
    groups = group_shard(topics=topics)
    topics.create("topic", 1)
    found = topics.partitions("topic")
    assert found is not None
    for group, topic_id in (("old", KafkaUuid(b"o" * 16)), ("new", found[0])):
        offsets = [CommittedOffset(T0, 1, 0, "", topic_id)]
        groups.run(
            lambda machine, times, group=group, offsets=offsets: machine.commit(
                GroupClient(group), offsets, times, lambda errors: None, -1, -1, -1
            )
        )
    groups.run(lambda machine, times: machine.delete_topics(frozenset({"topic"}), times))
    assert groups.machine.offsets.groups() == ["new"]
