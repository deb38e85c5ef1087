"""Sizes that brokers report, and plans by bytes against an exhaustive search on small clusters."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
import pytest

from quorumd.client.admin import AdminClient
from quorumd.errors import ErrorCode, InputIncomplete, RequestFailed
from quorumd.pipeline.plan.live_sizes import Reported, request_sizes, sizes_of_partitions
from quorumd.pipeline.plan.planner import make_plan
from quorumd.pipeline.plan.planning import Changes, Outcome, make_outcome
from quorumd.pipeline.plan.state import BrokerState, ClusterState, padded_rows
from quorumd.protocol.messages.describe_cluster_response import (
    DescribeClusterBroker,
    DescribeClusterResponse,
    Listener,
)
from quorumd.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tests.support.plan.checks import check, loads, moves
from tests.support.text import shows

RACKS = ("a", "b", "c", "a", "b")
ROWS = [[1, 2], [2, 3], [3, 1], [1, 2]]
STATE = ClusterState.of(
    ["orders", "orders", "orders", "payments"],
    [0, 1, 2, 0],
    padded_rows(ROWS),
    [1, 2, 3, -1],
    [BrokerState(id) for id in (1, 2, 3)],
)
SIZES = {
    1: {("orders", 0): 100, ("orders", 2): 28, ("payments", 0): 7, ("deleted", 0): 9999},
    2: {("orders", 0): 110, ("orders", 1): 50, ("orders", 2): 9999, ("orders", 77): 1, ("payments", 0): 8},
    3: {("orders", 1): 49, ("orders", 2): 30},
}


def directory(path: str, sizes: dict[tuple[str, int], int], error: int = 0) -> DescribeLogDirsResult:
    topics = [
        DescribeLogDirsTopic(topic, [DescribeLogDirsPartition(number, size, 0)])
        for (topic, number), size in sizes.items()
    ]
    return DescribeLogDirsResult(error, path, topics)


class Admin:
    """Three brokers, the first of which is also a voter; broker 3 has an offline and a future log."""

    def __init__(self, unreachable: Sequence[int] = ()) -> None:
        self._unreachable = unreachable

    async def describe_brokers(self) -> DescribeClusterResponse:
        response = DescribeClusterResponse()
        response.brokers = [DescribeClusterBroker(broker, f"host-{broker}", 9092) for broker in (2, 3)]
        clients = Listener("CLIENTS", "host-1", 9092, 0)
        response.brokers.append(DescribeClusterBroker(1, "host-of-controller-1", 9093, listeners=[clients]))
        return response

    async def describe_log_dirs(self, address: tuple[str, int]) -> list[DescribeLogDirsResult]:
        broker = int(address[0].removeprefix("host-"))
        if broker in self._unreachable:
            raise RequestFailed("connection refused")
        if broker != 3:
            return [directory("/data", SIZES[broker])]
        moving = DescribeLogDirsTopic("orders", [DescribeLogDirsPartition(2, 5, 0, True)])
        return [
            directory("/data-1", SIZES[3]),
            directory("/data-2", {}, ErrorCode.KAFKA_STORAGE_ERROR),
            DescribeLogDirsResult(0, "/data-3", [moving]),
        ]


def request(brokers: Iterable[int], unreachable: Sequence[int] = ()) -> tuple[Reported, list[str]]:
    shown: list[str] = []
    admin = cast(AdminClient, Admin(unreachable))
    return asyncio.run(request_sizes(admin, brokers, shown.append)), shown


def test_size_is_that_of_leader_else_of_largest_replica() -> None:
    assert sizes_of_partitions(STATE, Reported(SIZES)).tolist() == [100, 50, 30, 8]
    without_leaders = {2: SIZES[2], 1: {("orders", 2): 28}}
    assert sizes_of_partitions(STATE, Reported(without_leaders)).tolist() == [110, 50, 28, 8]


def test_all_brokers_report_with_progress() -> None:
    reported, shown = request((3, 1, 2))
    assert reported.by_broker == SIZES
    assert shown == [f"sizes of {done} of 3 brokers" for done in (1, 2, 3)]
    (failure,) = reported.failures
    assert shows(failure, "/data-2", "broker 3", "KAFKA_STORAGE_ERROR")


def test_failing_broker_is_named_and_others_are_used() -> None:
    reported, _ = request((1, 2, 4), unreachable=[1])
    assert sizes_of_partitions(STATE, Reported(reported.by_broker | {3: SIZES[3]})).tolist() == [
        110,
        50,
        30,
        8,
    ]
    refused, unknown = reported.failures
    assert shows(refused, "broker 1", "connection refused")
    assert shows(unknown, "broker 4", "not registered")


def test_partition_without_any_size_is_incomplete_input() -> None:
    reported, _ = request((1, 2, 3), unreachable=[1, 2])
    with pytest.raises(InputIncomplete) as caught:
        sizes_of_partitions(STATE, reported)
    assert shows(str(caught.value), "2 partitions", "orders-0", "broker 1", "broker 2", "connection refused")
    with pytest.raises(InputIncomplete) as caught:
        sizes_of_partitions(STATE, Reported({2: SIZES[2]}))
    assert shows(str(caught.value), "orders-2", "no broker has a log")


def test_cluster_without_partitions_needs_no_sizes() -> None:
    empty = ClusterState.of([], [], padded_rows([]), [], [BrokerState(1)])
    assert sizes_of_partitions(empty, Reported(SIZES)).tolist() == []


def small_cluster(seed: int) -> tuple[ClusterState, Changes]:
    """A cluster of 4 or 5 brokers with 5 partitions of very different sizes, most replicas on the first brokers."""
    random = np.random.default_rng(seed)
    count = int(random.integers(4, 6))
    racks = RACKS if seed % 2 else (None,) * 5
    rows = [random.permutation(count - int(random.integers(0, 2)))[:2].tolist() for _ in range(5)]
    state = ClusterState.of(
        ["t"] * 5, range(5), padded_rows(rows), [row[0] for row in rows],
        [BrokerState(broker, racks[broker]) for broker in range(count)],
    )  # fmt: skip
    leaving = frozenset({0}) if seed % 3 == 0 else frozenset()
    return state, Changes(leaving, sizes=random.integers(1, 60, 5).astype(np.int64))


def all_placements(outcome: Outcome) -> tuple[np.ndarray, np.ndarray]:
    """Every placement that the limits of racks allow: the load of each broker, and the bytes copied."""
    alive, rules = outcome.broker_index.alive.tolist(), outcome.rules
    racks = outcome.broker_index.rack_of
    pairs = [
        pair
        for pair in itertools.combinations(alive, 2)
        if (np.bincount(racks[list(pair)], minlength=rules.most.shape[1]) <= rules.most[2]).all()
    ]
    held = np.zeros((1, len(outcome.broker_index.ids)), np.int64)
    copied = np.zeros(1, np.int64)
    for row, size in zip(outcome.old.tolist(), outcome.weights.tolist(), strict=True):
        loads_of = np.array([[size * (b in pair) for b in range(held.shape[1])] for pair in pairs])
        copied_of = np.array([size * len(set(pair) - set(row)) for pair in pairs])
        held = (held[:, None] + loads_of[None]).reshape(-1, held.shape[1])
        copied = (copied[:, None] + copied_of[None]).reshape(-1)
    return held[:, alive], copied


@pytest.mark.parametrize("seed", range(24))
def test_plan_by_bytes_against_all_placements(seed: int) -> None:
    state, changes = small_cluster(seed)
    outcome = make_outcome(state, changes)
    check(outcome)
    held, copied = all_placements(outcome)
    ours = loads(outcome)[outcome.broker_index.alive]
    band = outcome.within.reaching(loads(outcome))
    alive = outcome.broker_index.alive
    as_even = ((held >= band.low[alive]) & (held <= band.high[alive])).all(1)
    assert outcome.bound <= copied[as_even].min() <= moves(outcome), "the bound holds for every placement"
    assert ours.max() <= 1.05 * held.max(1).min(), "the fullest broker has as little as whole replicas permit"
    again = make_outcome(state, changes)
    assert np.array_equal(outcome.new, again.new)


def test_moves_and_figures_are_in_bytes() -> None:
    state, changes = small_cluster(3)
    plan, outcome = make_plan(state, changes), make_outcome(state, changes)
    copied = moves(outcome)
    assert copied > 0
    assert plan.figures["bytes"] == copied == sum(plan.moves["bytes"].to_pylist())
    assert plan.sizes is not None
    assert changes.sizes is not None
    assert plan.sizes.to_pydict() == {
        "topic": ["t"] * 5,
        "partition": list(range(5)),
        "bytes": changes.sizes.tolist(),
    }
    assert make_plan(state, Changes()).sizes is None
