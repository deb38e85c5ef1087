"""How far the copies in folders are, as a history is told."""

from __future__ import annotations

from pathlib import Path

from quorumd.pipeline.history.lag import lag_of
from quorumd.pipeline.history.tables import as_time
from tests.support.history_logs import history, write_segment

NOW = as_time(5)


def test_copies_are_behind_the_farthest_one_once_the_history_is_there(tmp_path: Path) -> None:
    log, _ = history(1, 60)
    one, two = (write_segment(tmp_path / name, log[:40]) for name in ("one", "two"))
    lag = lag_of({"path": f"1={one},2={two}"})
    end = log[39].offset + 1
    assert lag(NOW, end - 1) == [], "there is more in the log"
    assert [(row["node_id"], row["log_end_offset"], row["lag"]) for row in lag(NOW, end)] == [
        (1, end, 0),
        (2, end, 0),
    ]
    write_segment(two, log[:60])
    behind = [(row["ts"], row["role"], row["lag"]) for row in lag(NOW, end + 20)]
    assert behind == [(NOW, "folder", 20), (NOW, "folder", 0)]
