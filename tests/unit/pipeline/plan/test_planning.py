"""Each requested change by itself, and rejected ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from quorumd.errors import ConfigError
from quorumd.pipeline.plan import moves as moves_module
from quorumd.pipeline.plan import spread as spread_module
from quorumd.pipeline.plan.arrays import not_in
from quorumd.pipeline.plan.exchanges import Exchanges
from quorumd.pipeline.plan.planner import fenced_brokers, make_plan
from quorumd.pipeline.plan.planning import Changes, make_outcome
from quorumd.pipeline.plan.repair import Repair
from quorumd.pipeline.plan.state import BrokerState, ClusterState, padded_rows
from scripts.skewed_states import skewed_state
from tests.support.plan.checks import after, check, leads, loads, moves, rack_counts

RACKS = [f"r{n % 3}" for n in range(9)]
EVEN = after(make_outcome(skewed_state(300, RACKS), Changes()))


def test_balanced_cluster_is_unchanged() -> None:
    outcome = make_outcome(EVEN, Changes())
    assert np.array_equal(outcome.old, outcome.new)
    assert outcome.bound == 0


def test_replaced_broker_gives_all_replicas_to_successor() -> None:
    outcome = make_outcome(EVEN, Changes(replace={4: 30}))
    check(outcome)
    assert moves(outcome) == outcome.bound
    ids = outcome.broker_index.ids
    old, new = ids[outcome.old], ids[outcome.new]
    changed = (old != new).any(1)
    assert changed.sum() == (old == 4).any(1).sum()
    assert np.array_equal(np.where(old == 4, 30, old), new), "in the same places, and no other broker changes"


def test_successor_keeps_replicas_of_replaced_broker() -> None:
    outcome = make_outcome(EVEN, Changes(frozenset({7}), replace={4: 30}))
    check(outcome)
    assert moves(outcome) == outcome.bound == 200
    ids = outcome.broker_index.ids
    had, has = (ids[outcome.old] == 4).any(1), (ids[outcome.new] == 30).any(1)
    assert has[had].all()
    assert has.sum() == 150


def test_only_new_broker_receives_replicas() -> None:
    outcome = make_outcome(EVEN, Changes(add={30: "r0"}))
    check(outcome)
    gets = outcome.broker_index.ids[outcome.new[not_in(outcome.new, outcome.old)]]
    assert set(gets.tolist()) == {30}
    assert len(gets) == outcome.bound == 75, "a fourth broker in a rack of 300 replicas"


def test_raised_replication_factor_moves_no_replica() -> None:
    outcome = make_outcome(
        after(make_outcome(skewed_state(300, RACKS, 2), Changes())), Changes(factors={"": 3})
    )
    check(outcome)
    assert moves(outcome) == outcome.bound == 300
    assert not not_in(outcome.old, outcome.new).any()


def test_lowered_replication_factor_copies_no_replica() -> None:
    outcome = make_outcome(EVEN, Changes(factors={"": 2}))
    check(outcome)
    assert moves(outcome) == outcome.bound == 0
    held = loads(outcome)
    assert held.max() - held.min() <= 1


def test_replication_factor_of_one_topic_changes() -> None:
    topic = EVEN.names[2]
    outcome = make_outcome(EVEN, Changes(factors={topic: 4}))
    check(outcome)
    of_topic = EVEN.topics == 2
    assert ((outcome.new >= 0).sum(1) == np.where(of_topic, 4, 3)).all()


def test_only_selected_topics_change() -> None:
    state = skewed_state(300, RACKS, skew=1)
    chosen = frozenset(state.names[:3])
    outcome = make_outcome(state, Changes(only=chosen))
    check(outcome)
    assert len(outcome.new) == (state.topics < 3).sum()
    held = loads(outcome)
    assert held.max() - held.min() <= 1
    others = after(outcome).replicas[state.topics >= 3]
    assert np.array_equal(others, state.replicas[state.topics >= 3])


def test_dead_broker_is_replaced_across_racks() -> None:
    brokers = [BrokerState(n, f"r{n % 3}") for n in range(6)]
    rows = padded_rows([[0, 1, 9], [0, 3, 2]])
    state = ClusterState.of(["t", "t"], [0, 1], rows, [0, 0], brokers)
    outcome = make_outcome(state, Changes())
    check(outcome)
    assert (rack_counts(outcome) == 1).all()
    assert moves(outcome) == outcome.bound


def test_tolerance_saves_moves_and_is_respected() -> None:
    state = skewed_state(2_000, RACKS, skew=0.3)
    exact, loose = (make_outcome(state, Changes(tolerance=share)) for share in (0.0, 0.1))
    assert loose.bound < exact.bound
    assert moves(loose) == loose.bound
    mean = 3 * 2_000 / 9
    assert loads(loose).max() <= np.ceil(mean * 1.1)
    assert loads(loose).min() >= np.floor(mean * 0.9)


def test_bytes_are_balanced_if_sizes_are_given() -> None:
    state = skewed_state(2_000, RACKS, skew=0.5)
    sizes = np.random.default_rng(3).lognormal(20, 1.5, len(state)).astype(np.int64)
    outcome = make_outcome(state, Changes(sizes=sizes, remove=frozenset({7})))
    check(outcome)
    held = loads(outcome)[outcome.broker_index.alive]
    for rack in range(3):
        of_rack = held[outcome.broker_index.rack_of[outcome.broker_index.alive] == rack]
        assert of_rack.max() / of_rack.mean() <= 1.021
        assert of_rack.min() / of_rack.mean() >= 0.979
    assert outcome.bound <= moves(outcome) <= 1.05 * outcome.bound
    led = leads(outcome)[outcome.broker_index.alive]
    assert led.max() - led.min() <= 1


@pytest.mark.parametrize("shards", [1, 5])
def test_topic_concentration_does_not_grow(shards: int) -> None:
    state = skewed_state(3_000, [f"r{n % 6}" for n in range(24)], topics=300)
    made = make_plan(state, Changes(add={50: "r0", 51: "r1"}), shards=shards)
    assert made.figures["after"]["most_of_a_topic"] <= made.figures["before"]["most_of_a_topic"]


@pytest.mark.parametrize("shards", [1, 4])
def test_spread_topics_stay_spread(shards: int) -> None:
    """Four partitions with three replicas on 24 brokers: no broker needs two replicas of a topic."""
    rows = [[(7 * topic + 6 * n + 2 * m) % 24 for m in range(3)] for topic in range(200) for n in range(4)]
    state = ClusterState.of(
        [f"t{topic}" for topic in range(200) for _ in range(4)],
        [n for _ in range(200) for n in range(4)],
        padded_rows(rows),
        [row[0] for row in rows],
        [BrokerState(n) for n in range(24)],
    )
    made = make_plan(state, Changes(frozenset({3, 8}), {24: None}), shards=shards)
    assert made.figures["moves"] == made.figures["lower_bound"] > 0
    assert made.figures["before"]["most_of_a_topic"] == made.figures["after"]["most_of_a_topic"] == 0


def test_brokers_without_racks_are_balanced_too() -> None:
    state = skewed_state(200, [None] * 7)
    outcome = make_outcome(state, Changes(frozenset({3})))
    check(outcome)
    held = loads(outcome)[outcome.broker_index.alive]
    assert held.max() - held.min() <= 1


def test_given_rack_overrides_registered_rack() -> None:
    state = skewed_state(200, [None] * 6, 2)
    outcome = make_outcome(state, Changes(racks={n: f"r{n % 2}" for n in range(6)}))
    check(outcome)
    assert (rack_counts(outcome) == 1).all()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"remove": frozenset({99})},
            "broker 99 cannot be removed, since .*; known brokers are 0, 1, 2",
        ),
        ({"add": {3: "r0"}}, "broker 3 cannot be added, since it exists; use --rack"),
        ({"remove": frozenset({3}), "add": {3: "r0"}}, "broker 3 cannot be both removed and added"),
        ({"add": {30: "r0", 31: None}}, "these have none: 31; .* --add 31:RACK"),
        ({"replace": {99: 3}}, "broker 99 cannot be removed, since it does not exist"),
        ({"racks": {77: "r"}}, "broker 77 cannot get a rack, since it does not exist"),
        ({"remove": frozenset(range(9))}, "no broker that can hold a replica remains"),
        (
            {"remove": frozenset(range(7))},
            "3 replicas of a partition need as many brokers, but only 2 remain",
        ),
        ({"factors": {"nowhere": 2}}, "topic 'nowhere' is not in this state"),
        ({"only": frozenset({"nowhere"})}, "topic 'nowhere' is not in this state"),
    ],
)
def test_impossible_changes_are_rejected(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make_outcome(EVEN, Changes(**changes))


def test_racks_of_all_brokers_or_of_none_are_required() -> None:
    """Otherwise a rack in a cluster without racks would get a replica of every partition."""
    plain = skewed_state(60, [f"r{n}" for n in range(6)])
    plain = replace(plain, brokers={id: BrokerState(id) for id in plain.brokers})
    with pytest.raises(ConfigError, match="these have none: 0, 1, 2, 3, 4, 5;"):
        make_outcome(plain, Changes(add={30: "r0"}))
    check(make_outcome(plain, Changes(add={30: "r0"}, racks={id: f"r{id}" for id in plain.brokers})))


def test_few_replicas_that_can_move_are_found_in_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a shard, most replicas of an overloaded broker may enter only racks without room: a broker that gives up one
    replica has hundreds of candidates."""
    racks = [f"r{rack}" for rack, size in enumerate((10, 10, 11)) for _ in range(size)]
    state = skewed_state(6_000, racks, seed=1, skew=0.25)
    rounds = _counted(monkeypatch, moves_module, "_round")
    outcome = make_outcome(state, Changes(frozenset({7, 8}), {35: "r0", 36: "r2"}), shards=4)
    check(outcome)
    assert moves(outcome) == outcome.bound
    assert len(rounds) < 500


def test_costs_are_computed_few_times_for_many_overloaded_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs depend on all partitions; 66 brokers with surplus use the same ones, also when the next room is full."""
    state = skewed_state(10_000, [f"rack-{n % 3}" for n in range(100)], seed=1, skew=0.25, heeds_racks=False)
    monkeypatch.setattr(Exchanges, "save_moves", lambda exchanges: np.zeros(102, np.int64))
    costs = _counted(monkeypatch, Exchanges, "_update_costs")
    check(make_outcome(state, Changes(frozenset({7, 8}), {200: "r1", 201: "r2"}), shards=4))
    assert 0 < len(costs) <= 8


def test_racks_of_one_broker_take_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two brokers hold a replica of every partition, which no other broker may take, however many of a topic they
    have; most cycles that save moves are possible for many replicas."""
    racks = [*("big" for _ in range(98)), "r1", "r2"]
    trades = _counted(monkeypatch, spread_module, "_trade")
    costs = _counted(monkeypatch, Exchanges, "_update_costs")
    outcome = make_outcome(
        skewed_state(3_000, racks, seed=1, skew=0.25), Changes(frozenset({3}), {100: "big"})
    )
    check(outcome)
    assert moves(outcome) == outcome.bound
    assert len(trades) < 10
    assert len(costs) < 10


def test_empty_state_is_reported() -> None:
    empty = ClusterState.of([], [], padded_rows([]), [], [BrokerState(1)])
    with pytest.raises(ConfigError, match="there are no partitions"):
        make_plan(empty, Changes())


def test_fenced_brokers_are_listed_unless_removed() -> None:
    brokers = [BrokerState(1, fenced=True), BrokerState(2), BrokerState(3, fenced=True)]
    state = ClusterState.of(["t"], [0], padded_rows([[1]]), [1], brokers)
    assert fenced_brokers(state, Changes(frozenset({3}))) == [1]


def test_share_below_even_spread_counts_as_zero() -> None:
    """Six brokers have one replica each; when one is drained, the share of the others is two."""
    state = ClusterState.of(
        ["t"] * 3,
        range(3),
        padded_rows([[0, 1], [2, 3], [4, 5]]),
        [0, 2, 4],
        [BrokerState(n) for n in range(6)],
    )
    made = make_plan(state, Changes(frozenset({5})), shards=1)
    assert made.figures["before"]["most_of_a_topic"] == 0


def test_large_rack_is_filled_in_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every partition needs a replica in the largest rack. Most of those without one there have none on overloaded
    brokers either, so replicas move by way of a third broker, many at a time."""
    state = skewed_state(1_500, [f"r{min(n % 9, 5)}" for n in range(60)], seed=3, skew=0.7, heeds_racks=False)
    chains = _counted(monkeypatch, Repair, "_chain")
    outcome = make_outcome(state, Changes())
    check(outcome)
    assert moves(outcome) == outcome.bound
    assert len(chains) < 20


def _counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[None]:
    """Return a list that grows with each call of a function."""
    calls: list[None] = []
    called = getattr(owner, name)

    def counted(*arguments: Any, **others: Any) -> Any:
        calls.append(None)
        return called(*arguments, **others)

    monkeypatch.setattr(owner, name, counted)
    return calls
