"""Queries return corrected times, whatever the clocks of leaders were."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from quorumd.errors import ConfigError, InputIncomplete
from quorumd.pipeline.history.history import History, open_history
from quorumd.pipeline.history.queries import isr_churn, partition_rows, table_rows
from quorumd.pipeline.history.tables import as_time, read_files
from tests.support.history.logs import reassigned
from tests.support.history.writing import write, write_with_wrong_clock

WRONG_EPOCH, WRONG_BY = 3, timedelta(days=1)
"""The offsets of eight epochs, each with fifty offsets and fifty milliseconds."""


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> tuple[History, History]:
    """A history with right clocks, and the same with a wrong one."""
    right, wrong = tmp_path_factory.mktemp("right"), tmp_path_factory.mktemp("wrong")
    write_with_wrong_clock(right, WRONG_EPOCH, timedelta())
    write_with_wrong_clock(wrong, WRONG_EPOCH, WRONG_BY)
    return open_history(right), open_history(wrong)


def states_since(opened: History, moment: datetime) -> set[tuple[str, int, int]]:
    rows = partition_rows(opened, None, None, moment, None)
    return {(row["topic"], row["partition"], row["from_offset"]) for row in rows}


def test_times_of_all_tables_are_corrected(histories: tuple[History, History]) -> None:
    right, wrong = histories
    assert (right.clocks.moved, wrong.clocks.moved) == (0, 1)
    recorded = read_files(wrong.directory, wrong.manifest.paths("events"), "events")["ts"]
    assert max(recorded.to_pylist()) > right.end_ts
    for table, time, order in (
        ("events", "ts", "offset"),
        ("partition_states", "from_ts", "from_offset"),
        ("brokers", "from_ts", "from_offset"),
        ("epochs", "start_ts", "start_offset"),
    ):
        times = wrong.read(table).sort_by(order)[time].to_pylist()
        assert times == sorted(times)
        assert max(times) <= wrong.end_ts == right.end_ts


def test_window_selects_by_corrected_time(histories: tuple[History, History]) -> None:
    right, wrong = histories
    for since in ("0.3s", "0.12s", "0.03s"):
        moments = [each.moment(since) for each in histories]
        assert moments[0] == moments[1]
        found = [states_since(each, moment) for each, moment in zip(histories, moments, strict=True)]
        assert found[0]
        assert found[0] == found[1]
        assert len(isr_churn(wrong, moments[1], 1000)) == len(isr_churn(right, moments[0], 1000))
    # It begins where the epoch with the wrong clock ends.
    until = as_time(50 * (WRONG_EPOCH + 1) * 1000)
    before = [
        {row["from_offset"] for row in partition_rows(each, None, None, None, until)} for each in histories
    ]
    assert before[0] == before[1]


def test_end_of_history_is_corrected_for_last_clock(tmp_path: Path) -> None:
    write_with_wrong_clock(tmp_path, 7, -WRONG_BY)
    found = open_history(tmp_path)
    assert found.clocks.moved == 1
    assert found.end_ts > as_time(0)
    assert max(row["start_ts"] for row in table_rows(found, "epochs", None)) <= found.end_ts


def test_sql_corrects_times_alike(histories: tuple[History, History]) -> None:
    """Spark's evaluation is tested in tests/pipeline."""
    assert histories[1].clocks.sql("t", "o").startswith("timestamp_micros(unix_micros(t) + CASE WHEN o >= ")
    assert histories[1].clocks.sql("t", "o").count("WHEN") == 1


def test_unknown_topic_and_partition_are_reported(tmp_path: Path) -> None:
    write(tmp_path, reassigned())
    opened = open_history(tmp_path)
    assert partition_rows(opened, "u", 0, None, None)
    with pytest.raises(ConfigError, match="has no topic 'v'"):
        partition_rows(opened, "v", 0, None, None)
    with pytest.raises(ConfigError, match=r"5 partitions .*'t', .*partition 5"):
        partition_rows(opened, "t", 5, None, None)


def test_missing_file_is_reported_with_remedy(tmp_path: Path) -> None:
    write(tmp_path, reassigned())
    opened = open_history(tmp_path)
    gone = tmp_path / opened.manifest.paths("topics")[0]
    gone.unlink()
    with pytest.raises(InputIncomplete, match=str(gone)):
        table_rows(opened, "topics", None)
