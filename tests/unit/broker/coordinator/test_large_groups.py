"""The members of a group with thousands of members get their responses in slices."""

from __future__ import annotations

import pytest

from quorumd.broker.coordinator.shards import RESPONSES_PER_SLICE
from quorumd.broker.settings.coordinator_settings import GroupSettings
from quorumd.errors import ErrorCode
from tests.support.broker.classic_members import ClassicClient, Groups, assign
from tests.support.broker.coordinator_shards import group_shard

MEMBERS = 2 * RESPONSES_PER_SLICE + 1
DELAY_MS = 1_000


@pytest.fixture
def groups() -> Groups:
    return group_shard(GroupSettings(initial_rebalance_delay_ms=DELAY_MS))


@pytest.fixture
def clients(groups: Groups) -> list[ClassicClient]:
    """Clients that wait for the first generation."""
    clients = [ClassicClient(groups) for _ in range(MEMBERS)]
    for client in clients:
        client.join()
    return clients


def joined(clients: list[ClassicClient]) -> int:
    return sum(client.joined is not None for client in clients)


def synced(clients: list[ClassicClient]) -> int:
    return sum(client.synced is not None for client in clients)


def begin_generation(groups: Groups, clients: list[ClassicClient]) -> None:
    """Run events until the first members have joined."""
    until_ms = groups.time.heap.now_ms + 3 * DELAY_MS
    while not joined(clients):
        assert groups.time.heap.step(until_ms)


def test_members_join_a_generation_in_slices(groups: Groups, clients: list[ClassicClient]) -> None:
    begin_generation(groups, clients)
    for expected in (RESPONSES_PER_SLICE, 2 * RESPONSES_PER_SLICE, MEMBERS):
        assert joined(clients) == expected
        groups.time.heap.step(groups.time.heap.now_ms)


def test_members_get_their_assignments_in_slices(groups: Groups, clients: list[ClassicClient]) -> None:
    begin_generation(groups, clients)
    groups.time.end_turn()
    groups.log.is_replicating = False
    assign(clients)
    assert synced(clients) == 0
    groups.replicate()
    for expected in (RESPONSES_PER_SLICE, 2 * RESPONSES_PER_SLICE, MEMBERS):
        assert synced(clients) == expected
        groups.time.heap.step(groups.time.heap.now_ms)
    assert all(each.synced and each.synced.assignment == each.member_id.encode() for each in clients)


def test_coordinator_that_resigns_sends_the_responses_that_wait(
    groups: Groups, clients: list[ClassicClient]
) -> None:
    begin_generation(groups, clients)
    groups.shards.resigned(0)
    groups.time.end_turn()
    assert joined(clients) == MEMBERS
    assert {each.joined.error for each in clients if each.joined is not None} == {ErrorCode.NONE}


def test_failed_assignment_is_reported_by_a_coordinator_that_resigns(
    groups: Groups, clients: list[ClassicClient]
) -> None:
    begin_generation(groups, clients)
    groups.time.end_turn()
    groups.log.is_replicating = False
    assign(clients)
    groups.shards.resigned(0)
    groups.time.end_turn()
    assert synced(clients) == MEMBERS
    errors = {each.synced.error for each in clients if each.synced is not None}
    assert errors == {ErrorCode.NOT_COORDINATOR}
