"""The histograms that metrics and status show."""

from __future__ import annotations

from quorumd.node.statistics import Histogram


def test_observations_are_counted_up_to_their_bound() -> None:
    histogram = Histogram((1.0, 5.0))
    for value in (0.5, 1.0, 4.0, 7.0):
        histogram.observe(value)
    assert histogram.counts == [2, 1, 1]


def test_observation_of_several_records_counts_each() -> None:
    histogram = Histogram((1.0, 5.0))
    histogram.observe(2.0, 3)
    histogram.observe(10.0)
    assert histogram.counts == [0, 3, 1]
    assert histogram.total == 16.0


def test_maximum_is_that_of_all_observations() -> None:
    histogram = Histogram((1.0, 5.0))
    for value in (2.0, 9.0, 3.0):
        histogram.observe(value)
    assert histogram.maximum == 9.0
