"""Histories that continue from a snapshot because the log was deleted before it was read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quorumd.errors import InputIncomplete
from quorumd.pipeline.history.history import open_history
from quorumd.pipeline.history.jobs import run_job
from quorumd.pipeline.history.seed import Seed
from quorumd.pipeline.history.tables import as_time
from quorumd.pipeline.history.writer import HistoryWriter
from tests.support.history.logs import history
from tests.support.history.reference import NaiveHistory
from tests.support.history.rows import plain_states
from tests.support.history.writing import write, write_seed

FACTS = (
    "leader",
    "leader_epoch",
    "partition_epoch",
    "replicas",
    "isr",
    "elr",
    "adding",
    "removing",
    "under_min_isr",
)


def facts(state: dict[str, Any]) -> list[Any]:
    return [state[name] for name in FACTS]


States = dict[tuple[bytes, int], dict[str, Any]]


def current(directory: Path) -> States:
    states = plain_states(open_history(directory).read("partition_current"))
    return {(state["topic_id"], state["partition"]): state for state in states}


@pytest.mark.parametrize("seed", range(8))
def test_history_after_gap_equals_complete_history(tmp_path: Path, seed: int) -> None:
    log, image = history(seed, 400)
    _, at_the_snapshot = history(seed, 250)
    write(tmp_path, log[:150])
    write_seed(tmp_path, at_the_snapshot, log[249])
    for low in range(250, 400, 50):
        write(tmp_path, log[low : low + 50])
    naive = NaiveHistory()
    naive.apply(log)
    found = open_history(tmp_path)
    assert {key: facts(state) for key, state in current(tmp_path).items()} == {
        key: facts(state) for key, state in naive.open.items()
    }
    topics = found.read("topics").to_pylist()
    assert {row["topic_id"] for row in topics if row["deleted_offset"] is None} == {
        bytes(topic_id) for topic_id in image.topics
    }
    brokers = found.read("brokers").to_pylist()
    assert {row["broker_id"]: row["fenced"] for row in brokers if row["to_offset"] is None} == {
        broker_id: broker.is_fenced for broker_id, broker in image.brokers.items()
    }
    assert (found.manifest.begin, found.manifest.end) == (log[0].offset, log[-1].offset + 1)


def test_gap_is_recorded(tmp_path: Path) -> None:
    log, _ = history(3, 300)
    _, image = history(3, 200)
    write(tmp_path, log[:100])
    write_seed(tmp_path, image, log[199])
    (gap,) = open_history(tmp_path).read("gaps").drop_columns(["cluster_id"]).to_pylist()
    assert gap == {
        "from_offset": log[99].offset + 1,
        "to_offset": log[199].offset + 1,
        "from_ts": as_time(log[99].ts_us),
        "to_ts": as_time(log[199].ts_us),
    }


def test_history_starting_with_snapshot_has_no_gap(tmp_path: Path) -> None:
    log, _ = history(3, 300)
    _, image = history(3, 200)
    write_seed(tmp_path, image, log[199])
    write(tmp_path, log[200:])
    found = open_history(tmp_path)
    assert not len(found.read("gaps"))
    assert found.manifest.begin == log[199].offset + 1


def across_a_gap(directory: Path, snapshot: int) -> tuple[States, States, int]:
    """Return the current states after the 200th record and after a snapshot of `records` records, and the last
    offset of the snapshot."""
    log, _ = history(5, 300)
    _, image = history(5, snapshot)
    write(directory, log[:200])
    before = current(directory)
    write_seed(directory, image, log[snapshot - 1])
    return before, current(directory), log[snapshot - 1].offset


def test_unchanged_states_continue_across_gap(tmp_path: Path) -> None:
    before, after, _ = across_a_gap(tmp_path, 206)
    same = {key for key, state in before.items() if facts(after[key]) == facts(state)}
    assert same
    assert {key: after[key] for key in same} == {key: before[key] for key in same}
    assert same < after.keys()
    assert {after[key]["cause"] for key in after.keys() - same} == {"snapshot"}


def test_states_missing_in_snapshot_end_with_it(tmp_path: Path) -> None:
    before, after, last = across_a_gap(tmp_path, 250)
    gone = before.keys() - after.keys()
    assert gone
    ended = plain_states(open_history(tmp_path).read("partition_states"))
    assert gone == {
        (state["topic_id"], state["partition"])
        for state in ended
        if state["cause"] == "deleted" and state["from_offset"] == last
    }


def test_snapshot_deleted_before_read_keeps_history(tmp_path: Path) -> None:
    log, _ = history(3, 100)
    write(tmp_path, log)
    before = current(tmp_path)
    writer = HistoryWriter(tmp_path, open_history(tmp_path).manifest)
    with pytest.raises(InputIncomplete, match="900-7"):
        writer.add_seed([], lambda jobs: map(run_job, jobs), Seed(900, 7, as_time(0)))
    assert current(tmp_path) == before
