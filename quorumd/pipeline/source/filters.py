"""Prunes the input by pushed filters.

Filters only prune: Spark evaluates each of them again on the rows, so that a read returns the same rows with
push-down switched off.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from pyspark.sql import datasource as pushed

from quorumd.pipeline.source.options import EVERY_EPOCH, EVERY_OFFSET, EVERY_TIME, Interval, Selection

_OFFSETS, _EPOCHS, _TIMES = "offsets", "epochs", "times"
_INTERVALS = {
    "offset": _OFFSETS,
    "base_offset": _OFFSETS,
    "epoch": _EPOCHS,
    "ts": _TIMES,
}
"""Columns that batches can be pruned by; all of them ascend, or nearly, along the log."""
_WIDEST = {_OFFSETS: EVERY_OFFSET, _EPOCHS: EVERY_EPOCH, _TIMES: EVERY_TIME}
_UNIX = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def selection_of(filters: Iterable[pushed.Filter], by_base_offset: bool) -> Selection:
    """Return a part of the logs that contains every row that passes all `filters`.

    With `by_base_offset`, its offsets are base offsets of batches, otherwise offsets of records.
    """
    selection = Selection()
    for each in filters:
        selection &= _selection_of(each, by_base_offset)
    return selection


def _selection_of(each: pushed.Filter, by_base_offset: bool) -> Selection:
    name = _column(each)
    if name == "node":
        values = _values(each)
        return Selection(None if values is None else frozenset(map(_number, values)))
    kind = _INTERVALS.get(name)
    if kind is None:
        return Selection()
    interval = _interval(each, _WIDEST[kind])
    if name == "base_offset" and not by_base_offset:
        # Its batch may extend beyond the filter.
        interval = Interval(interval.low)
    if kind == _OFFSETS:
        return Selection(offsets=interval)
    return Selection(epochs=interval) if kind == _EPOCHS else Selection(times=interval)


def _column(each: pushed.Filter) -> str:
    """Return the column that a filter compares; "" for other filters."""
    attribute: tuple[str, ...] = getattr(each, "attribute", ())
    return attribute[0] if len(attribute) == 1 else ""


def _values(each: pushed.Filter) -> list[int | datetime] | None:
    """Return the values that the filter allows; None for any."""
    if isinstance(each, pushed.EqualTo):
        return [] if each.value is None else [each.value]
    if isinstance(each, pushed.EqualNullSafe):
        # Rows of faults have null columns.
        return None if each.value is None else [each.value]
    if isinstance(each, pushed.In):
        return [value for value in each.value if value is not None]
    return None


def _interval(each: pushed.Filter, widest: Interval) -> Interval:
    values = _values(each)
    if values is not None:
        numbers = [_number(value) for value in values]
        return Interval(min(numbers), max(numbers) + 1) if numbers else Interval(0, 0)
    if isinstance(each, pushed.GreaterThan | pushed.GreaterThanOrEqual):
        return Interval(_number(each.value), widest.high)
    if isinstance(each, pushed.LessThan | pushed.LessThanOrEqual):
        return Interval(widest.low, _number(each.value) + 1)
    return widest


def _number(value: int | datetime) -> int:
    """Convert times to milliseconds: bounds are inclusive, and Spark filters exactly."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (aware - _UNIX) // _MILLISECOND
    return int(value)
