"""Runs the steps of planning in order, from a state and changes to the new replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from quorumd.errors import ConfigError
from quorumd.pipeline.plan.arrays import NONE, Ints, Rows, any_in_row, sum_of_row
from quorumd.pipeline.plan.bound import lower_bound, priced_bound
from quorumd.pipeline.plan.drain import release
from quorumd.pipeline.plan.exchanges import Exchanges
from quorumd.pipeline.plan.leaders import balanced_leaders, packed
from quorumd.pipeline.plan.leveling import level
from quorumd.pipeline.plan.moves import fill
from quorumd.pipeline.plan.placement import Placement
from quorumd.pipeline.plan.repair import Repair
from quorumd.pipeline.plan.shards import Runner, exchange, in_process, shard_of_topics, split
from quorumd.pipeline.plan.spread import spread_out
from quorumd.pipeline.plan.state import ClusterState
from quorumd.pipeline.plan.targets import Bands, RackRules, bands, targets

_FORCED_ROUNDS = 8
_PROVABLE = 100_000_000
"""The product of replicas and racks above which proving the minimum of moves takes longer than planning."""
BYTES_TOLERANCE = 0.02
"""Default tolerance of a plan by bytes, since replicas cannot be divided to make it even."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The requested changes.

    remove      brokers to drain
    add         new brokers without replicas, with their racks
    replace     brokers to drain, each with its replacement
    racks       racks of brokers, instead of their registered ones
    factors     replication factor by topic; "" stands for all other topics
    only        topics to plan for, balanced among themselves; all if empty
    tolerance   allowed deviation of a broker from its share, 0.02 is 2 %; None for as even as whole replicas permit
    sizes       bytes of a replica of each partition, to balance bytes instead of replicas
    """

    remove: frozenset[int] = frozenset()
    add: Mapping[int, str | None] = field(default_factory=dict)
    replace: Mapping[int, int] = field(default_factory=dict)
    racks: Mapping[int, str] = field(default_factory=dict)
    factors: Mapping[str, int] = field(default_factory=dict)
    only: frozenset[str] = frozenset()
    tolerance: float | None = None
    sizes: Ints | None = None


@dataclass(frozen=True, slots=True)
class BrokerIndex:
    """The brokers of a plan by index."""

    ids: Ints
    racks: tuple[str | None, ...]
    rack_of: Ints
    """The index of the rack; NONE for brokers to drain."""
    successors: Mapping[int, int]
    """The replacement of each replaced broker."""

    @property
    def alive(self) -> Ints:
        """Indexes of brokers that may hold replicas."""
        return np.flatnonzero(self.rack_of >= 0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The planned replicas, as rows of indexes of `broker_index`, for the partitions at `index` of the state.

    `bound` is a lower bound of the moves of any plan that is as even, in the unit of `weights`.
    """

    state: ClusterState
    broker_index: BrokerIndex
    index: Ints
    old: Rows
    new: Rows
    weights: Ints
    within: Bands
    targets: Ints
    rules: RackRules
    wanted: Ints
    bound: int
    by_bytes: bool


def make_outcome(
    state: ClusterState, changes: Changes, *, shards: int = 1, runner: Runner = in_process
) -> Outcome:
    """Plan the new replicas of all partitions. Raises ConfigError for impossible changes."""
    broker_index = broker_index_of(state, changes)
    index = _planned(state, changes)
    old = _indexed(state.replicas[index], broker_index.ids)
    wanted = _wanted(state, changes, index, old)
    whole = changes.sizes is None
    weights = np.ones(len(index), np.int64) if changes.sizes is None else np.maximum(changes.sizes[index], 1)
    sizes = np.bincount(
        broker_index.rack_of[broker_index.alive], minlength=int(broker_index.rack_of.max(initial=0)) + 1
    )
    rules = RackRules.of(sizes, wanted)
    tolerance = changes.tolerance if changes.tolerance is not None else 0.0 if whole else BYTES_TOLERANCE
    totals = np.bincount(wanted, weights.astype(np.float64)) if len(wanted) else np.zeros(1)
    by_factor = {int(factor): int(totals[factor]) for factor in np.unique(wanted)}
    within = bands(broker_index.rack_of, rules, by_factor, tolerance, whole=whole)
    _, topics = np.unique(state.topics[index], return_inverse=True)
    placement = Placement(
        _without_leaving(old, wanted, broker_index),
        wanted,
        weights,
        topics.astype(np.int64),
        broker_index.rack_of,
        rules,
    )
    _respect_present_spread(placement, old)
    start = placement.copy()
    goal = targets(placement.loads, broker_index.rack_of, within)
    release(placement, goal)
    _put_successors(placement, old, broker_index, goal)
    if shards > 1:
        shard_of = shard_of_topics(state.names, shards)[state.topics[index]]
        for part, rows in runner(split(placement, shard_of, shards, goal)):
            placement.rows[part] = rows
        placement = Placement(
            placement.rows, wanted, weights, placement.topics, broker_index.rack_of, rules, placement.limits
        )
    bound = _finish(placement, start, old, goal, within, broker_index.successors)
    new = balanced_leaders(packed(placement.rows), broker_index.alive)
    return Outcome(
        state, broker_index, index, old, new, weights, within, goal, rules, wanted, bound, not whole
    )


def _respect_present_spread(placement: Placement, old: Rows) -> None:
    """Allow each broker as many replicas of a topic as the fullest broker has now."""
    here = old >= 0
    topics = np.broadcast_to(placement.topics[:, None], old.shape)[here]
    counts = np.bincount(topics * placement.brokers + old[here], minlength=len(placement.of_topic))
    fullest = counts.reshape(-1, placement.brokers).max(1)
    placement.limits = np.maximum(placement.limits, fullest)


def _finish(
    placement: Placement,
    start: Placement,
    old: Rows,
    goal: Ints,
    within: Bands,
    successors: Mapping[int, int],
) -> int:
    """Place all remaining replicas, first within the limits per topic, then within racks and loads only.

    Return the bound of `_save_moves`; `start` is the placement before any move.
    """
    alive = placement.rack_of >= 0
    for keep_spread in (True, False):
        surplus = np.where(alive, np.maximum(placement.loads - goal, 0), 0)
        exchange(placement, surplus, np.maximum(goal - placement.loads, 0), keep_spread=keep_spread)
    repair = Repair(placement, old, within)
    heaviest = int(placement.weights.max(initial=1))
    if heaviest > 1:
        repair.fill()
    # If no broker in an allowed rack has room, overload one, which then gives up another replica.
    for _ in range(_FORCED_ROUNDS):
        fill(placement, np.where(alive, heaviest, 0).astype(np.int64), keep_spread=False)
    repair.fill_anyhow()
    if heaviest == 1:
        # With different weights, a path would change the loads of all brokers on it.
        Exchanges(placement, old, within).balance()
    repair.run()
    if heaviest > 1:
        level(placement, within)
    bound = _save_moves(placement, start, old, within, repair)
    spread_out(placement, old, successors)
    return bound


def _save_moves(placement: Placement, start: Placement, old: Rows, within: Bands, repair: Repair) -> int:
    """Undo unnecessary moves; return a lower bound of the moves of any plan that is as even."""
    reached = within.reaching(placement.loads)
    bound = lower_bound(start, reached)
    if placement.moved_from(old) <= bound:
        return bound
    # Exchanges of different weights would change loads.
    if int(placement.weights.max()) > 1 or placement.rows.size * placement.racks > _PROVABLE:
        repair.save_moves(bound)
        return lower_bound(start, within.reaching(placement.loads))
    prices = Exchanges(placement, old, reached).save_moves()
    return max(bound, priced_bound(start, reached, prices))


def broker_index_of(state: ClusterState, changes: Changes) -> BrokerIndex:
    """Return the existing, added and removed brokers. Raises ConfigError."""
    registered = {id for id, broker in state.brokers.items() if broker.registered}
    leaving = changes.remove | changes.replace.keys()
    coming = dict(changes.add)
    for old, new in changes.replace.items():
        if new not in registered and new not in coming:
            coming[new] = state.brokers[old].rack if old in state.brokers else None
    _check_brokers(state, changes, registered, leaving)
    ids = np.array(sorted({*state.brokers, *coming}), np.int64)
    racks: list[str | None] = []
    for id in ids.tolist():
        rack = changes.racks.get(id)
        if rack is None:
            rack = coming[id] if id in coming else state.brokers[id].rack
        racks.append(rack)
    alive = np.array([(id in registered or id in coming) and id not in leaving for id in ids.tolist()], bool)
    _check_racks(ids[alive], [rack for rack, lives in zip(racks, alive, strict=True) if lives])
    names = sorted({rack or "" for rack, lives in zip(racks, alive, strict=True) if lives})
    rack_of = np.array(
        [names.index(rack or "") if lives else NONE for rack, lives in zip(racks, alive, strict=True)],
        np.int64,
    )
    successors = {
        int(np.searchsorted(ids, old)): int(np.searchsorted(ids, new)) for old, new in changes.replace.items()
    }
    return BrokerIndex(ids, tuple(racks), rack_of, successors)


def _check_brokers(
    state: ClusterState, changes: Changes, registered: set[int], leaving: frozenset[int] | set[int]
) -> None:
    unknown = sorted(leaving - state.brokers.keys())
    if unknown:
        raise ConfigError(
            f"broker {unknown[0]} cannot be removed, since it does not exist; known brokers are {_listed(registered)}"
        )
    both = sorted(leaving & (changes.add.keys() | set(changes.replace.values())))
    if both:
        raise ConfigError(f"broker {both[0]} cannot be both removed and added")
    existing = sorted(changes.add.keys() & registered)
    if existing:
        raise ConfigError(
            f"broker {existing[0]} cannot be added, since it exists; use --rack to change its rack"
        )
    unknown = sorted(changes.racks.keys() - registered - changes.add.keys() - set(changes.replace.values()))
    if unknown:
        raise ConfigError(
            f"broker {unknown[0]} cannot get a rack, since it does not exist; known brokers are {_listed(registered)}"
        )
    if not (registered | changes.add.keys() | set(changes.replace.values())) - leaving:
        raise ConfigError("no broker that can hold a replica remains")


def _check_racks(ids: Ints, racks: Sequence[str | None]) -> None:
    """Raise ConfigError if only some of the brokers have a rack: the others would count as one more rack."""
    without = [int(id) for id, rack in zip(ids, racks, strict=True) if rack is None]
    if without and len(without) < len(ids):
        raise ConfigError(
            f"some brokers have a rack, but these have none: {_listed(set(without))}; name the rack of each, "
            f"such as --rack {without[0]}=RACK, or --add {without[0]}:RACK for a new broker"
        )


def _listed(ids: set[int]) -> str:
    shown = sorted(ids)
    text = ", ".join(map(str, shown[:20]))
    return f"{text} and {len(shown) - 20} more" if len(shown) > 20 else text or "none"


def _planned(state: ClusterState, changes: Changes) -> Ints:
    """Return the indexes of the partitions to plan for. Raises ConfigError for an unknown topic."""
    missing = sorted((changes.only | (changes.factors.keys() - {""})) - set(state.names))
    if missing:
        raise ConfigError(f"topic {missing[0]!r} is not in this state, which has {len(state.names)} topics")
    if not changes.only:
        return np.arange(len(state))
    chosen = np.array([name in changes.only for name in state.names], bool)
    return np.flatnonzero(chosen[state.topics])


def _indexed(rows: Rows, ids: Ints) -> Rows:
    return np.where(rows >= 0, np.searchsorted(ids, rows), NONE).astype(np.int32)


def _wanted(state: ClusterState, changes: Changes, index: Ints, old: Rows) -> Ints:
    """Return the target replication factor of each partition."""
    wanted = sum_of_row(old >= 0).astype(np.int64)
    if changes.factors:
        by_topic = np.array(
            [changes.factors.get(name, changes.factors.get("", 0)) for name in state.names], np.int64
        )
        given = by_topic[state.topics[index]]
        wanted = np.asarray(np.where(given > 0, given, wanted))
    return np.asarray(wanted)


def _without_leaving(old: Rows, wanted: Ints, broker_index: BrokerIndex) -> Rows:
    """Return the replicas that may stay, in rows wide enough for the target replication factors."""
    width = max(old.shape[1], int(wanted.max(initial=0)))
    rows = np.full((len(old), width), NONE, np.int32)
    gone = np.r_[broker_index.rack_of < 0, True]
    rows[:, : old.shape[1]] = np.where(gone[old], NONE, old)
    return rows


def _put_successors(placement: Placement, old: Rows, broker_index: BrokerIndex, goal: Ints) -> None:
    """Give successors the replicas of the brokers they replace, as far as racks and targets allow."""
    for before, after in broker_index.successors.items():
        partitions, columns = np.nonzero(old == before)
        lacking = placement.wanted[partitions] > sum_of_row(placement.rows[partitions] >= 0)
        allowed = placement.allowed_racks(partitions, columns)[:, placement.rack_of[after]]
        fits = lacking & allowed & ~any_in_row(placement.rows[partitions] == after)
        room = max(int(goal[after] - placement.loads[after]), 0)
        taken = np.flatnonzero(fits)
        taken = taken[np.cumsum(placement.weights[partitions[taken]]) <= room]
        placement.put(partitions[taken], columns[taken], np.full(len(taken), after, np.int64))
