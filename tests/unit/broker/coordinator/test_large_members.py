"""Bounds of the memory of the members of groups."""

from __future__ import annotations

import struct

import pytest

from quorumd.broker.coordinator import classic_membership, mixed_membership
from quorumd.broker.coordinator.large_members import (
    LARGE_MEMBER_BYTES,
    MAX_MEMBER_BYTES,
    NAME_BYTES,
    LargeMembers,
    MemberSizes,
)
from quorumd.errors import ErrorCode
from tests.support.broker.classic_members import ClassicClient, Groups
from tests.support.broker.consumer_members import ConsumerClient
from tests.support.broker.coordinator_shards import group_shard

SIZE = 2 * LARGE_MEMBER_BYTES


class Coordinator:
    """A coordinator with members."""

    def __init__(self, broker: LargeMembers) -> None:
        self.members: set[tuple[str, str]] = set()
        self.sizes = MemberSizes(broker, lambda group, member: (group, member) in self.members)

    def join(self, member: str, size: int) -> ErrorCode:
        error = self.sizes.check(size)
        if error is ErrorCode.NONE:
            self.members.add(("g", member))
            self.sizes.record("g", member, size)
        return error


def test_all_large_members_share_the_memory() -> None:
    broker = LargeMembers(2 * SIZE)
    first, second = Coordinator(broker), Coordinator(broker)
    assert [first.join("a", SIZE), second.join("b", SIZE)] == [ErrorCode.NONE] * 2
    assert first.join("c", SIZE) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert first.join("c", LARGE_MEMBER_BYTES) is ErrorCode.NONE
    second.members.clear()
    assert first.join("d", SIZE) is ErrorCode.NONE


def test_members_of_closed_coordinators_take_no_memory() -> None:
    broker = LargeMembers(SIZE)
    first, second = Coordinator(broker), Coordinator(broker)
    first.join("a", SIZE)
    for each in (second, first):
        each.sizes.close()
    assert not broker.of_coordinators
    assert second.join("b", SIZE) is ErrorCode.NONE


def test_member_that_replaces_its_protocols_counts_once() -> None:
    broker = LargeMembers(2 * SIZE)
    coordinator = Coordinator(broker)
    assert [coordinator.join("a", SIZE) for _ in range(3)] == [ErrorCode.NONE] * 3
    assert broker.total_bytes() == SIZE
    coordinator.join("a", 1)
    assert broker.total_bytes() == 0


def names(size: int) -> list[str]:
    """Return names of topics that count as `size` bytes."""
    return [f"{number:0{200 - NAME_BYTES}}" for number in range(size // 200)]


def subscribed(groups: Groups, size: int, group: str = "g", member: str = "member") -> ErrorCode:
    return ConsumerClient(groups, member, *names(size)).beat(group=group).error


def test_subscriptions_of_consumer_groups_are_bounded() -> None:
    groups = group_shard()
    assert subscribed(groups, MAX_MEMBER_BYTES + 200) is ErrorCode.MESSAGE_TOO_LARGE
    size = MAX_MEMBER_BYTES - 200
    errors = [subscribed(groups, size, f"g{number}") for number in range(40)]
    assert errors == [0] * 32 + [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 8
    assert subscribed(groups, LARGE_MEMBER_BYTES, member="small") is ErrorCode.NONE


def test_heartbeats_of_large_members_without_a_change_are_accepted() -> None:
    groups = group_shard()
    first = ConsumerClient(groups, "first", *names(MAX_MEMBER_BYTES - 200))
    for number in range(31):
        assert subscribed(groups, MAX_MEMBER_BYTES - 200, f"g{number}") is ErrorCode.NONE
    assert [first.beat().error for _ in range(3)] == [ErrorCode.NONE] * 3
    first.topics = first.topics[1:]
    assert first.beat().error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_classic_members_of_consumer_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = group_shard()
    ConsumerClient(groups, "member", "a").beat()

    def join(user_data_bytes: int) -> ErrorCode | None:
        user_data = bytes(user_data_bytes)
        subscription = struct.pack(">hih", 0, 1, 1) + b"a" + struct.pack(">i", len(user_data)) + user_data
        joined = ClassicClient(groups, protocols=(("range", subscription),)).join()
        return None if joined is None else joined.error

    assert join(MAX_MEMBER_BYTES) is ErrorCode.MESSAGE_TOO_LARGE
    assert [join(MAX_MEMBER_BYTES - 300) for _ in range(33)] == [ErrorCode.NONE] * 32 + [
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    ]
    monkeypatch.setattr(mixed_membership, "MAX_MEMBERS", 33)
    assert join(0) is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_members_of_another_coordinator_take_no_memory() -> None:
    groups = group_shard()
    subscribed(groups, MAX_MEMBER_BYTES - 200)
    broker = groups.machine._sizes._broker
    assert broker.total_bytes() > LARGE_MEMBER_BYTES
    groups.shard.unload()
    assert broker.total_bytes() == 0


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
