"""A day of a cluster and a plan for it, as the tables from which reports are built."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa

from quorumd.pipeline.report.history_sections import HistoryData
from quorumd.pipeline.report.measures import STATE_COLUMNS
from quorumd.pipeline.report.plan_section import PlanData
from quorumd.pipeline.tables.schemas import (
    BROKERS,
    EPOCHS,
    LAG,
    PARTITION_STATES,
    PLAN_BROKERS,
    PLAN_MOVES,
    TOPICS,
    Table,
)

MORNING = datetime(2026, 3, 14, 6, tzinfo=UTC)


def table(schema: Table, rows: list[dict[str, Any]], columns: tuple[str, ...] | None = None) -> pa.Table:
    """Build a table from rows; missing columns are null."""
    arrow = schema.select(columns).arrow() if columns else schema.arrow()
    return pa.Table.from_pylist([{name: row.get(name) for name in arrow.names} for row in rows], schema=arrow)


def state(
    at: datetime, until: datetime | None, cause: str = "isr_shrink", **overrides: Any
) -> dict[str, Any]:
    """Build a state of partition orders-0, by default a healthy one."""
    sound = {
        "topic": "orders",
        "partition": 0,
        "leader": 1,
        "leader_before": 1,
        "isr_left": 0,
        "isr_joined": 0,
    }
    sound |= {"under_replicated": False, "under_min_isr": False}
    return sound | {"from_ts": at, "to_ts": until, "cause": cause} | overrides


def states(rows: list[dict[str, Any]]) -> pa.Table:
    return table(PARTITION_STATES, rows, STATE_COLUMNS)


def history(rows: list[dict[str, Any]], **tables: pa.Table) -> HistoryData:
    """Build a history with these states and other tables."""
    empty = {"epochs": EPOCHS, "brokers": BROKERS, "topics": TOPICS, "lag": LAG}
    found = {name: tables.get(name, schema.arrow().empty_table()) for name, schema in empty.items()}
    return HistoryData("MkU3OEVBNTcwNTJENDM2Qg", 0, 1000, states(rows), **found)


def a_day(seed: int = 1, partitions: int = 600, hours: float = 24.0) -> HistoryData:
    """Build the history of brokers that restart one after the other, a broker that fails at noon, and a few elections
    of the quorum."""
    random = Random(seed)
    end = MORNING + timedelta(hours=hours)
    rows: list[dict[str, Any]] = []
    brokers: list[dict[str, Any]] = []
    for broker in range(1, 13):
        downs = [(MORNING + timedelta(hours=1 + broker * 0.25), timedelta(minutes=random.uniform(2, 5)))]
        if broker == 7:
            downs.append((MORNING + timedelta(hours=6.2), timedelta(hours=3.1)))
        at = MORNING
        for down, length in [*downs, (end, timedelta(0))]:
            registered = {
                "broker_id": broker,
                "event": "unfence",
                "fenced": False,
                "from_offset": len(brokers),
            }
            last = down == end
            brokers.append(
                registered
                | {"from_ts": at, "to_ts": None if last else down, "to_offset": None if last else 1}
            )
            if last:
                break
            fenced = registered | {
                "event": "fence",
                "fenced": True,
                "from_ts": down,
                "to_ts": down + length,
                "to_offset": 1,
            }
            brokers.append(fenced)
            at = down + length
            for partition in range(broker, partitions, 12):
                rows += _bounce(random, broker, partition, down, length)
    epochs, lag = _epochs(random, end), _lag(random, end)
    return history(rows, epochs=epochs, brokers=table(BROKERS, brokers), topics=_topics(), lag=lag)


def _bounce(
    random: Random, broker: int, partition: int, down: datetime, length: timedelta
) -> list[dict[str, Any]]:
    """Return the states of a partition whose broker is down for a while."""
    out, back = (
        down + timedelta(seconds=random.uniform(0, 20)),
        down + length + timedelta(seconds=random.gauss(60, 15)),
    )
    name = {"topic": f"topic-{partition % 40}", "partition": partition // 40}
    leads = random.random() < 0.4
    after = (broker % 12) + 1
    shrunk = {
        "leader": after if leads else 3,
        "leader_before": broker if leads else 3,
        "isr_left": 1,
    }
    cause = "leader" if leads else "isr_shrink"
    if broker == 7 and length > timedelta(hours=1) and random.random() < 0.2:
        shrunk |= {"leader": -1, "leader_before": 7, "under_min_isr": True}
    grown = {"leader": shrunk["leader"], "leader_before": shrunk["leader"], "isr_joined": 1}
    if shrunk["leader"] == -1:
        grown |= {"leader": 2}
    grown_cause = "unclean" if grown["leader"] == 2 else "isr_expand"
    return [
        state(out, back, cause, under_replicated=True, **name, **shrunk),
        state(back, None, grown_cause, **name, **grown),
    ]


def _topics() -> pa.Table:
    return table(TOPICS, [{"topic": f"topic-{i}", "partitions": 15} for i in range(40)])


def _epochs(random: Random, end: datetime) -> pa.Table:
    rows: list[dict[str, Any]] = []
    at, offset, leader = MORNING, 0, 1
    while at < end:
        until = at + timedelta(hours=random.choice((0.3, 1.5, 4, 7)))
        records = random.randrange(1000, 90_000)
        last = until >= end
        rows.append(
            {
                "epoch": 4 + len(rows),
                "leader_id": leader,
                "start_offset": offset,
                "end_offset": None if last else offset + records,
                "start_ts": at,
                "end_ts": None if last else until,
                "records": records,
                "batches": records // 9,
            }
        )
        at, offset, leader = until, offset + records, leader % 3 + 1
    return table(EPOCHS, rows)


def _lag(random: Random, end: datetime) -> pa.Table:
    rows: list[dict[str, Any]] = []
    at = MORNING
    while at < end:
        for node in range(1, 6):
            role = "leader" if node == 1 else "voter" if node < 4 else "observer"
            lag = 0 if node == 1 else int(random.expovariate(1 / (3 + 12 * (node == 5))))
            if node == 5 and 6 < (at - MORNING).total_seconds() / 3600 < 8:
                lag += 900
            rows.append({"ts": at, "node_id": node, "role": role, "log_end_offset": 10_000 - lag, "lag": lag})
        at += timedelta(minutes=10)
    return table(LAG, rows)


def a_plan(brokers: int = 36, racks: int = 3, added: int = 4, per_broker: int = 400) -> PlanData:
    """Build a plan that adds brokers and balances replicas."""
    random = Random(brokers)
    low, high = int(per_broker * 0.7), int(per_broker * 1.5) + 1
    before = [0 if i >= brokers - added else random.randrange(low, high) for i in range(brokers)]
    target, rest = divmod(sum(before), brokers)
    rows: list[dict[str, Any]] = []
    for i, had in enumerate(before):
        gets = target + (i < rest)
        rows.append(
            {
                "broker": i + 1,
                "rack": f"rack-{chr(97 + i % racks)}" if racks else None,
                "replicas_before": had,
                "replicas_after": gets,
                "replicas_target": gets,
                "leaders_before": int(had * random.uniform(0.2, 0.45)),
                "leaders_after": gets // 3,
            }
        )
    moves = sum(max(row["replicas_after"] - row["replicas_before"], 0) for row in rows)
    moved = [
        {
            "wave": 1 + i // 500,
            "topic": f"topic-{i % 40}",
            "partition": i,
            "old": [1],
            "new": [3],
            "adds": [3],
            "removes": [1],
        }
        for i in range(moves)
    ]
    spread = {
        "before": {"replicas_max_to_mean": 1.4871, "rack_violations": 12},
        "after": {"replicas_max_to_mean": 1.0013, "rack_violations": 0},
    }
    figures = {
        "partitions": 5 * moves,
        "topics": 40,
        "brokers": len(rows),
        "changed_partitions": moves,
        "moves": moves,
        "lower_bound": moves,
        "bytes": None,
        "lower_bound_bytes": None,
        "waves": 1 + moves // 500,
        **spread,
    }
    return PlanData(table(PLAN_MOVES, moved), table(PLAN_BROKERS, rows), figures)
