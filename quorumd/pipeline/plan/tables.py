"""Converts a plan to tables (schemas.PLAN_MOVES, schemas.PLAN_BROKERS) and computes its figures."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from quorumd.pipeline.plan.arrays import NONE, Ints, Mask, Rows, any_in_row, not_in, sum_of_row
from quorumd.pipeline.plan.files import Figures
from quorumd.pipeline.plan.placement import Placement
from quorumd.pipeline.plan.planning import Outcome
from quorumd.pipeline.plan.waves import waves
from quorumd.pipeline.tables.schemas import PLAN_BROKERS, PLAN_MOVES

REASONS = ("leaders", "balance", "rack", "replication factor", "broker leaves")
"""The reason for the change of a partition; the last one applies if there are several."""


def moves_table(outcome: Outcome, limit: int | None) -> pa.Table:
    """Return the changed partitions, ordered by wave, topic and partition."""
    old, new, ids = outcome.old, outcome.new, outcome.broker_index.ids
    leaving = _leaving(outcome)
    leaders = _leader_indexes(outcome)
    wave = waves(old, new, leaders, leaving, limit)
    changed = np.flatnonzero(wave)
    changed = changed[np.argsort(wave[changed], kind="stable")]
    where = outcome.index[changed]
    state = outcome.state
    names = pa.array(state.names, pa.string())
    gets, loses = not_in(new, old)[changed], not_in(old, new)[changed]
    copied = sum_of_row(gets) * outcome.weights[changed]
    columns = [
        pa.array(wave[changed], pa.int32()),
        names.take(pa.array(state.topics[where])),
        pa.array(state.partitions[where], pa.int32()),
        _lists(old[changed], old[changed] >= 0, ids),
        _lists(new[changed], new[changed] >= 0, ids),
        _lists(new[changed], gets, ids),
        _lists(old[changed], loses, ids),
        pa.array(state.leaders[where], pa.int32()),
        pa.array(ids[new[changed, 0]], pa.int32()),
        pa.array(copied, pa.int64()) if outcome.by_bytes else pa.nulls(len(changed), pa.int64()),
        pa.array(REASONS, pa.string()).take(pa.array(_reasons(outcome, leaving)[changed])),
    ]
    return pa.Table.from_arrays(columns, schema=PLAN_MOVES.arrow())


def brokers_table(outcome: Outcome) -> pa.Table:
    """Return the load of all brokers before and after the plan."""
    broker_index = outcome.broker_index
    counts = [
        _held(rows, np.ones(len(rows), np.int64), broker_index.ids) for rows in (outcome.old, outcome.new)
    ]
    sizes = [_held(rows, outcome.weights, broker_index.ids) for rows in (outcome.old, outcome.new)]
    leads = [
        _held(rows[:, :1], np.ones(len(rows), np.int64), broker_index.ids)
        for rows in (outcome.old, outcome.new)
    ]
    none = pa.nulls(len(broker_index.ids), pa.int64())
    target = outcome.targets if not outcome.by_bytes else counts[1]
    columns = [
        pa.array(broker_index.ids, pa.int32()),
        pa.array(broker_index.racks, pa.string()),
        *(pa.array(values, pa.int32()) for values in (*counts, target, *leads)),
        *(pa.array(values, pa.int64()) if outcome.by_bytes else none for values in sizes),
    ]
    return pa.Table.from_arrays(columns, schema=PLAN_BROKERS.arrow())


def sizes_table(outcome: Outcome) -> pa.Table | None:
    """Return topic, partition and bytes of a replica of the planned partitions; None for a plan by replicas."""
    if not outcome.by_bytes:
        return None
    state, index = outcome.state, outcome.index
    return pa.table(
        {
            "topic": pa.array(state.names, pa.string()).take(pa.array(state.topics[index])),
            "partition": pa.array(state.partitions[index], pa.int32()),
            "bytes": pa.array(outcome.weights, pa.int64()),
        }
    )


def figures(outcome: Outcome, moves: pa.Table) -> Figures:
    """Return the number and size of the moves, and the balance before and after."""
    alive = outcome.broker_index.alive
    gets = not_in(outcome.new, outcome.old)
    found: Figures = {
        "partitions": len(outcome.old),
        "topics": len(np.unique(outcome.state.topics[outcome.index])),
        "brokers": len(alive),
        "changed_partitions": moves.num_rows,
        "moves": int(gets.sum()),
        "lower_bound": None if outcome.by_bytes else outcome.bound,
        "bytes": int((sum_of_row(gets) * outcome.weights).sum()) if outcome.by_bytes else None,
        "lower_bound_bytes": outcome.bound if outcome.by_bytes else None,
        "waves": int(np.max(moves["wave"].to_numpy(), initial=0)),
        "before": _balance(outcome, outcome.old),
        "after": _balance(outcome, outcome.new),
    }
    return found


def _balance(outcome: Outcome, rows: Rows) -> dict[str, float]:
    alive = outcome.broker_index.alive
    ones = np.ones(len(rows), np.int64)
    held = _held(rows, ones, outcome.broker_index.ids)[alive]
    leads = _held(rows[:, :1], ones, outcome.broker_index.ids)[alive]
    found = {
        "replicas_min": int(held.min()),
        "replicas_max": int(held.max()),
        "replicas_max_to_mean": _ratio(held),
        "leaders_min": int(leads.min()),
        "leaders_max": int(leads.max()),
        "leaders_max_to_mean": _ratio(leads),
        "rack_violations": _violations(outcome, rows),
        "most_of_a_topic": _most_of_a_topic(outcome, rows),
    }
    if outcome.by_bytes:
        found["bytes_max_to_mean"] = _ratio(_held(rows, outcome.weights, outcome.broker_index.ids)[alive])
    return found


def _ratio(values: Ints) -> float:
    mean = float(values.mean()) if len(values) else 0.0
    return round(float(values.max()) / mean, 4) if mean else 1.0


def _held(rows: Rows, weights: Ints, ids: Ints) -> Ints:
    here = rows >= 0
    found = np.zeros(len(ids), np.int64)
    np.add.at(found, rows[here], np.broadcast_to(weights[:, None], rows.shape)[here])
    return found


def _violations(outcome: Outcome, rows: Rows) -> int:
    """Count partitions whose replicas are not spread evenly over racks, given the replicas they have."""
    here = rows >= 0
    gone = np.r_[outcome.broker_index.rack_of < 0, True]
    counted = np.where(here & ~gone[rows], rows, NONE).astype(np.int32)
    zeros = np.zeros(len(rows), np.int64)
    placement = Placement(
        counted, outcome.wanted, zeros, zeros, outcome.broker_index.rack_of, outcome.rules, zeros[:1]
    )
    found = 0
    for start in range(0, len(rows), 65_536):
        part = np.arange(start, min(start + 65_536, len(rows)))
        most = outcome.rules.most[outcome.wanted[part]]
        found += int(any_in_row(placement.rack_counts(part) > most).sum())
    return found


def _most_of_a_topic(outcome: Outcome, rows: Rows) -> int:
    """Return the largest number of replicas that a broker has of a topic above its even share."""
    topics = outcome.state.topics[outcome.index]
    here = rows >= 0
    brokers = len(outcome.broker_index.ids)
    keys = np.broadcast_to(topics[:, None], rows.shape)[here] * brokers + rows[here]
    if not len(keys):
        return 0
    pairs, counts = np.unique(keys, return_counts=True)
    totals = np.bincount(topics, sum_of_row(here))
    shares = np.ceil(totals / len(outcome.broker_index.alive)).astype(np.int64)
    return int(np.max(counts - shares[pairs // brokers], initial=0))


def _leaving(outcome: Outcome) -> Mask:
    """Return the partitions with a replica on a drained or unregistered broker."""
    gone = np.r_[outcome.broker_index.rack_of < 0, False]
    return np.asarray(any_in_row(gone[outcome.old]))


def _leader_indexes(outcome: Outcome) -> Ints:
    leaders = outcome.state.leaders[outcome.index]
    ids = outcome.broker_index.ids
    found = np.minimum(np.searchsorted(ids, leaders), len(ids) - 1)
    return np.where(ids[found] == leaders, found, NONE)


def _reasons(outcome: Outcome, leaving: Mask) -> Ints:
    """Return an index of REASONS per partition."""
    old, new = outcome.old, outcome.new
    reasons = np.where(any_in_row(not_in(new, old)) | any_in_row(not_in(old, new)), 1, 0)
    crowded = np.zeros(len(old), bool)
    gone = np.r_[outcome.broker_index.rack_of < 0, True]
    racks = np.where((old >= 0) & ~gone[old], outcome.broker_index.rack_of[old], NONE)
    most = outcome.rules.most[outcome.wanted]
    for column in range(racks.shape[1]):
        of = racks[:, column]
        crowded |= (of >= 0) & (
            sum_of_row(racks == of[:, None]) > most[np.arange(len(old)), np.maximum(of, 0)]
        )
    reasons[crowded] = 2
    reasons[sum_of_row(old >= 0) != outcome.wanted] = 3
    reasons[leaving] = 4
    return reasons


def _lists(rows: Rows, chosen: Mask, ids: Ints) -> pa.Array:
    offsets = pa.array(np.r_[0, np.cumsum(sum_of_row(chosen))], pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(ids[rows[chosen]], pa.int32())).cast(
        PLAN_MOVES.arrow().field("old").type
    )
