"""Bounds of the memory of the members of groups."""

from __future__ import annotations

import pytest

from quorumd.broker.coordinator import classic_membership
from quorumd.broker.coordinator.classic_group import ClassicGroup, ClassicMember, GroupState
from quorumd.broker.coordinator.large_members import LARGE_MEMBER_BYTES, MAX_MEMBER_BYTES, LargeMembers
from quorumd.errors import ErrorCode
from tests.support.broker.classic_members import ClassicClient
from tests.support.broker.coordinator_shards import group_shard

SIZE = 2 * LARGE_MEMBER_BYTES


def member_of(group: ClassicGroup, member_id: str) -> ClassicMember:
    member = ClassicMember(member_id, None, "client", "/", 1, 1, ())
    group.add(member, "consumer")
    return member


def test_all_large_members_share_the_memory() -> None:
    members = LargeMembers(2 * SIZE)
    group = ClassicGroup("g", 0)
    for name in "ab":
        assert members.has_room(SIZE)
        members.record(group, member_of(group, name), SIZE)
    assert not members.has_room(SIZE)
    assert members.has_room(LARGE_MEMBER_BYTES)
    group.remove("a")
    assert members.has_room(SIZE)


def test_members_of_removed_groups_take_no_memory() -> None:
    members = LargeMembers(SIZE)
    group = ClassicGroup("g", 0)
    members.record(group, member_of(group, "a"), SIZE)
    group.state = GroupState.DEAD
    assert members.has_room(SIZE)


def test_member_that_replaces_its_protocols_counts_once() -> None:
    members = LargeMembers(2 * SIZE)
    group = ClassicGroup("g", 0)
    member = member_of(group, "a")
    for _ in range(3):
        members.record(group, member, SIZE)
    assert members.has_room(SIZE)
    members.record(group, member, 1)
    assert members.has_room(2 * SIZE)


def test_broker_refuses_members_that_are_too_large() -> None:
    groups = group_shard()
    refused = ClassicClient(groups, protocols=(("range", bytes(MAX_MEMBER_BYTES)),)).join()
    assert refused is not None
    assert refused.error is ErrorCode.MESSAGE_TOO_LARGE
    large = ("range", bytes(MAX_MEMBER_BYTES - 100))
    errors = [ClassicClient(groups, group=f"g{number}", protocols=(large,)).join() for number in range(40)]
    assert [joined.error for joined in errors if joined] == [0] * 32 + [
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    ] * 8
    assert len(groups.machine.classic) == 32


def test_groups_have_a_limited_number_of_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classic_membership, "MAX_MEMBERS", 1)
    groups = group_shard()
    ClassicClient(groups).join()
    second = ClassicClient(groups).join()
    assert second is not None
    assert second.error is ErrorCode.GROUP_MAX_SIZE_REACHED
