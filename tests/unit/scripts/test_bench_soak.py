"""The figures of the soak, computed from known samples, and what counts as a missed target."""

from __future__ import annotations

import math
import statistics
from array import array

import pytest

from scripts.bench.soak import Case, NodeFigures, SoakReport
from scripts.bench.soak_figures import (
    buckets_since,
    growth,
    longest_bucket,
    parse_metrics,
    percentile,
    settled,
)
from scripts.bench.soak_load import CONFIG_WRITES, ISR_CHANGES, LATENESS, Outcome

FLAT = [(60.0 * minute, 100.0 + (minute % 2)) for minute in range(61)]
LEAK = [(60.0 * minute, 100.0 + 0.1 * minute + (minute % 2)) for minute in range(61)]


def test_percentiles_are_nearest_ranks() -> None:
    ordered = list(range(1, 1001))
    assert [percentile(ordered, each) for each in (50, 99, 99.9, 100)] == [500, 990, 999, 1000]
    assert percentile([7.0], 99.9) == 7.0
    assert percentile([], 50) == 0.0


def test_growth_is_slope_of_least_squares_with_its_interval() -> None:
    samples = [(0.0, 1.0), (1800.0, 4.0), (3600.0, 3.0), (7200.0, 8.0)]
    hours, values = zip(*((seconds / 3600, value) for seconds, value in samples), strict=True)
    expected = statistics.linear_regression(hours, values)
    residuals = sum(
        (y - expected.intercept - expected.slope * x) ** 2 for x, y in zip(hours, values, strict=True)
    )
    error = math.sqrt(residuals / 2 / (statistics.pvariance(hours) * 4))
    found = growth(samples)
    assert found.per_hour == pytest.approx(expected.slope)
    assert found.uncertainty == pytest.approx(1.96 * error)
    assert growth(samples[:2]).uncertainty == growth(samples[:1]).uncertainty == math.inf


def test_leak_is_certain_where_noise_is_not() -> None:
    assert not growth(FLAT).is_certain
    leak = growth(LEAK)
    assert leak.is_certain
    assert leak.per_hour == pytest.approx(6.0, abs=0.5)


def test_first_third_does_not_count_as_growth() -> None:
    assert settled([(0.0, 1.0), (29.0, 2.0), (30.0, 3.0), (90.0, 4.0)]) == [(30.0, 3.0), (90.0, 4.0)]


def test_longest_observation_since_the_start_is_in_its_bucket() -> None:
    page = "".join(f'x_bucket{{{{le="{bound}"}}}} {{}}\n' for bound in ("0.001", "0.002", "0.004", "+Inf"))
    before = parse_metrics("# HELP x y\n" + page.format(4.0, 4.0, 5.0, 5.0))
    after = parse_metrics(page.format(9.0, 9.0, 10.0, 10.0) + 'y_bucket{le="9.0"} 1.0\n')
    assert longest_bucket(buckets_since("x", before, after)) == (0.0, 0.001)
    assert longest_bucket(buckets_since("x", {}, after)) == (0.002, 0.004)
    assert longest_bucket(buckets_since("x", before, before)) == (0.0, 0.0)
    beyond = parse_metrics(page.format(9.0, 9.0, 10.0, 11.0))
    assert longest_bucket(buckets_since("x", before, beyond)) == (0.004, math.inf)


def report(node: NodeFigures, seconds: float = 3600.0, **failures: int) -> SoakReport:
    outcome = Outcome()
    outcome.latencies_ms[ISR_CHANGES] = array("d", [3.0, 1.0])
    outcome.latencies_ms[CONFIG_WRITES] = array("d", [9.0, 2.0])
    outcome.latencies_ms[LATENESS] = array("d", [0.5])
    outcome.failures.update(failures)
    steady = NodeFigures(FLAT, (16.0, 32.0), (4.0, 8.0), 0.1, 0.2, 3, 1)
    return SoakReport("compiled", Case(), seconds, outcome, [steady, node, steady], (1.0, 1.0))


def test_changes_of_both_kinds_are_in_one_distribution() -> None:
    reported = report(NodeFigures(FLAT))
    assert reported.latencies()["all changes"] == [2.0, 9.0, 9.0, 9.0]
    assert reported.latencies()[LATENESS] == [0.5] * 4
    assert (reported.outcome.committed, reported.leader_changes) == (4, 1)


@pytest.mark.parametrize(
    ("node", "failures", "what"),
    [
        (NodeFigures(LEAK), {}, "memory of node 1"),
        (NodeFigures(FLAT, longest_event_ms=(64.0, 128.0)), {}, "node 1 stalled"),
        (NodeFigures(FLAT, longest_delay_ms=(64.0, 128.0)), {}, "node 1 stalled"),
        (NodeFigures(FLAT), {"UNKNOWN": 2}, "UNKNOWN"),
    ],
)
def test_missed_target_is_reported(node: NodeFigures, failures: dict[str, int], what: str) -> None:
    (sentence,) = report(node, **failures).missed()
    assert what in sentence


def test_growth_in_a_short_run_is_not_judged() -> None:
    assert report(NodeFigures(LEAK), 599.0).missed() == []


def test_bucket_that_contains_the_limit_is_not_missed() -> None:
    assert report(NodeFigures(FLAT, longest_event_ms=(32.0, 64.0))).missed() == []
