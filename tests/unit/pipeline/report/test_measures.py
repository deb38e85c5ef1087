"""The charts of a history match its tables."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from quorumd.pipeline.report import measures
from quorumd.pipeline.tables.schemas import BROKERS, EPOCHS, LAG
from tests.support.plan.report_data import MORNING, a_day, state, states, table

T0 = MORNING.timestamp()
SPAN = (T0, T0 + 100)
MINUTE = timedelta(minutes=1)


def at(seconds: float) -> object:
    return MORNING + timedelta(seconds=seconds)


def test_churn_is_counted_per_step() -> None:
    rows = states(
        [
            state(at(0), at(10), "created", leader=1, leader_before=-1, isr_joined=3),
            state(at(10), at(20), "leader", leader=2, leader_before=1, isr_left=1),
            state(at(20), at(30), "leader", leader=-1, leader_before=2),
            state(at(30), at(90), "unclean", leader=3, leader_before=-1),
            state(at(90), None, "isr_expand", leader=3, leader_before=3, isr_joined=2),
        ]
    )
    found = measures.churn(rows, SPAN)
    assert found.step_s == 1

    def when(counts: list[float]) -> dict[int, float]:
        return {round(found.starts_s[i] - T0): count for i, count in enumerate(counts) if count}

    assert when(found.elected) == {10: 1}
    assert when(found.lost) == {20: 1}
    assert when(found.unclean) == {30: 1}
    assert when(found.left) == {10: 1}
    assert when(found.joined) == {90: 2}


def test_degraded_partitions_is_maximum_per_step() -> None:
    short = state(at(5.2), at(5.3), under_replicated=True)
    other = state(at(5.25), at(5.4), under_replicated=True, partition=1)
    follows = state(at(5.4), at(7), under_replicated=True, partition=2, leader=-1)
    gone = state(at(50), None, "deleted", under_replicated=True, leader=-1)
    found = measures.degraded(states([short, other, follows, gone]), SPAN)
    by_second = {round(when - T0): count for when, count in found.under_replicated}
    assert [by_second[second] for second in (4, 5, 6, 7, 8, 60)] == [0, 2, 1, 0, 0, 0]
    assert max(count for _, count in found.offline) == 1
    assert max(count for _, count in found.under_min_isr) == 0


def test_lasting_degradation_reaches_end() -> None:
    found = measures.degraded(states([state(at(40), None, under_min_isr=True)]), SPAN)
    assert found.under_min_isr[0][1] == 0
    assert found.under_min_isr[-1] == (SPAN[1], 1)


def test_top_partitions_are_ordered_by_changes() -> None:
    rows = [state(at(i), at(i + 1), isr_left=1, partition=1) for i in range(3)]
    rows += [state(at(9), None, "leader", leader=2, leader_before=1, under_min_isr=True)]
    rows += [state(at(1), None, "created", leader=1, leader_before=-1, isr_joined=3, partition=2)]
    found = measures.top_partitions(states(rows), T0 + 20, 10)
    assert [(row["partition"], row["changes"]) for row in found] == [(1, 3), (0, 1)]
    assert found[1]["under_s"] == 11
    assert measures.top_partitions(states(rows), T0 + 20, 1) == found[:1]


def test_current_epoch_ends_with_history() -> None:
    first = {
        "epoch": 1,
        "leader_id": 3,
        "start_offset": 0,
        "end_offset": 10,
        "start_ts": at(0),
        "end_ts": at(60),
    }
    last = {"epoch": 2, "leader_id": 1, "start_offset": 10, "start_ts": at(60), "records": 5, "batches": 1}
    found = measures.epoch_segments(table(EPOCHS, [last, first]), T0 + 90)
    assert [(each.lane, each.label, each.start_s - T0, each.end_s - T0) for each in found] == [
        ("3", "1", 0, 60),
        ("1", "2", 60, 90),
    ]
    assert [found[1].details[key] for key in ("Records", "Batches", "Offsets")] == ["5", "1", "10 to the end"]


def test_broker_has_one_segment_with_degraded_states_over_it() -> None:
    def row(start: float, end: float | None, event: str, fenced: bool) -> dict[str, object]:
        reported = {
            "broker_id": 7,
            "event": event,
            "fenced": fenced,
            "from_ts": at(start),
            "from_offset": int(start),
        }
        return reported | ({} if end is None else {"to_ts": at(end), "to_offset": int(end)})

    rows = [row(0, 5, "register", True), row(5, 9, "fence", True), row(9, 50, "unfence", False)]
    rows += [
        row(50, 60, "shutdown", False),
        row(60, 70, "unregister", True),
        row(70, None, "register", False),
    ]
    found = measures.broker_segments(table(BROKERS, rows), T0 + 90)
    spans = sorted((each.kind, round(each.start_s - T0), round(each.end_s - T0)) for each in found)
    assert spans == [
        ("fenced", 0, 9),
        ("registered", 0, 60),
        ("registered", 70, 90),
        ("shutting down", 50, 60),
    ]


def test_most_lagging_nodes_are_kept() -> None:
    rows = [{"ts": at(0), "node_id": node, "lag": node} for node in range(12)]
    lines, left_out = measures.lag_lines(table(LAG, rows), limit=3)
    assert [line.name for line in lines] == ["node 9", "node 10", "node 11"]
    assert left_out == 9


def test_span_ignores_unknown_times() -> None:
    assert measures.span_of([np.array([np.nan, 5.0]), np.array([3.0])]) == (3.0, 5.0)
    assert measures.span_of([np.array([np.nan])]) is None
    assert measures.span_of([np.array([4.0])]) == (4.0, 5.0)


def test_sums_of_day_equal_its_rows() -> None:
    day = a_day()
    span = measures.span_of([measures.seconds(day.states["from_ts"])])
    assert span is not None
    found = measures.churn(day.states, span)
    moved = sum(
        row["leader"] != row["leader_before"] for row in day.states.to_pylist() if row["cause"] != "created"
    )
    assert sum(found.elected) + sum(found.lost) + sum(found.unclean) >= moved
    assert sum(found.left) == sum(row["isr_left"] for row in day.states.to_pylist())
