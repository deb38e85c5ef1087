"""Histories built by Spark; folds and files are tested without Spark in tests/unit/pipeline."""

from __future__ import annotations

import shlex
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorumd.cli import root
from quorumd.cli.pipeline.options import SparkOptions
from quorumd.pipeline.history import writer
from quorumd.pipeline.history.build import Summary, build
from quorumd.pipeline.history.history import History, open_history, register_views
from quorumd.pipeline.history.queries import isr_churn, leader_flaps, under_min_isr
from quorumd.pipeline.history.tables import Manifest, read_manifest
from scripts.log_generator import GeneratedLog, LogShape, generate
from tests.support.documented_output import assert_as_documented, documented_outputs
from tests.support.history.content import by, content
from tests.support.history.logs import (
    damage_middle,
    history,
    read_log,
    reassigned,
    write_segment,
    write_snapshot_of,
)
from tests.support.history.reference import NaiveHistory
from tests.support.history.rows import plain_states
from tests.support.history.writing import write, write_with_wrong_clock

SHAPE = LogShape(records=6_000, segment_bytes=100_000, nodes=2, epoch_records=2_000, topics=6, partitions=8)
KEY = "topic_id", "partition", "from_offset"
PATIENCE_S = 900.0
"""Many times the duration on an idle machine."""


class Died(Exception):
    """Ends a run: everything before is on disk, nothing after it."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> GeneratedLog:
    return generate(tmp_path_factory.mktemp("log"), SHAPE)


@pytest.fixture(scope="module")
def built(spark: SparkSession, log: GeneratedLog, tmp_path_factory: pytest.TempPathFactory) -> History:
    """A history of the whole log, built by two runs. The first run died after publishing a micro-batch."""
    directory = tmp_path_factory.mktemp("history")
    path = ",".join(f"{node}={directory}" for node, directory in log.directories.items())
    source = {"path": path, "maxOffsetsPerTrigger": "2500"}
    published = writer.write_manifest

    def publish_and_die(directory: Path, manifest: Manifest) -> None:
        published(directory, manifest)
        if manifest.end > SHAPE.records // 2:
            raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "write_manifest", publish_and_die)
        with pytest.raises(Died):
            build(spark.sparkContext, source, directory)
    assert SHAPE.records // 2 < open_history(directory).manifest.end < SHAPE.records
    build(spark.sparkContext, source, directory)
    return open_history(directory)


@pytest.fixture(scope="module")
def views(spark: SparkSession, built: History) -> SparkSession:
    register_views(spark, built)
    return spark


def test_history_of_log_equals_reference_state_machine(log: GeneratedLog, built: History) -> None:
    naive = NaiveHistory()
    records = read_log(log.directories[1])
    naive.apply(records)
    found = plain_states(built.read("partition_states"))
    assert by(found, *KEY) == by(naive.closed, *KEY)
    assert by(plain_states(built.read("partition_current")), *KEY) == by([*naive.open.values()], *KEY)
    events = built.read("events")
    assert sorted(events["offset"].to_pylist()) == list(range(log.end_offset))
    assert len(events.filter(events["control"])) == log.end_offset - len(records)
    assert built.manifest.end == log.end_offset
    epochs = built.read("epochs").to_pylist()
    assert [epoch["epoch"] for epoch in epochs] == list(range(1, log.epoch + 1))
    assert sum(epoch["records"] for epoch in epochs) == log.end_offset


def test_followed_history_continues_after_deleted_records(spark: SparkSession, tmp_path: Path) -> None:
    """The history begins with the snapshot at 180; while it is followed, the log is cut to begin with the one at
    270."""
    whole, _ = history(11, 300)
    for begin, end in ((180, 240), (270, 300)):
        directory = write_segment(tmp_path / f"from-{begin}", whole[begin:end])
        write_snapshot_of(directory, history(11, begin)[1], whole[begin - 1])
    place, reported, stop = tmp_path / "node", list[str](), threading.Event()
    place.symlink_to("from-180")
    run = partial(
        build, spark.sparkContext, {"path": f"1={place}"}, tmp_path / "history", True, stop, reported.append
    )
    with ThreadPoolExecutor(1) as threads:
        following = threads.submit(run)
        try:
            wait_for(tmp_path / "history", whole[239].offset + 1, following)
            (tmp_path / "next").symlink_to("from-270")
            (tmp_path / "next").replace(place)
            wait_for(tmp_path / "history", whole[299].offset + 1, following)
        finally:
            stop.set()
        summary = following.result()
    first, low, high = (whole[number].offset + 1 for number in (179, 239, 269))
    assert (summary.records, summary.orphans, summary.begin) == (90, 0, first)
    found = open_history(tmp_path / "history")
    gaps = found.read("gaps", ["from_offset", "to_offset"]).to_pylist()
    assert gaps == [{"from_offset": low, "to_offset": high}]
    assert len(reported) == 1
    assert reported[0].startswith(
        f"offsets {low} to {high - 1} were deleted from the log before they were read"
    )
    naive = NaiveHistory()
    naive.apply(whole)
    states = plain_states(found.states())
    since = [state for state in states if state["from_offset"] >= high]
    expected = [s for s in [*naive.closed, *naive.open.values()] if s["from_offset"] >= high]
    assert by(since, *KEY) == by(expected, *KEY)
    seeded = {state["from_offset"] for state in states if state["cause"] == "snapshot"}
    assert seeded == {first - 1, high - 1}


def test_damaged_copy_is_skipped_and_reported(spark: SparkSession, tmp_path: Path) -> None:
    log, _ = history(5, 120)
    directories = {node: write_segment(tmp_path / f"node-{node}", log) for node in (1, 2)}
    damage_middle(directories[1])
    reported = list[str]()
    path = ",".join(f"{node}={directory}" for node, directory in directories.items())
    summary = build(spark.sparkContext, {"path": path}, tmp_path / "history", report=reported.append)
    assert (summary.records, summary.end) == (120, log[-1].offset + 1)
    (warning,) = reported
    assert warning.startswith(
        f"the copy of node 1 is damaged; the copy of node 2 is read instead, up to offset {summary.end}: "
    )
    write(tmp_path / "expected", log)
    found, expected = content(tmp_path / "history"), content(tmp_path / "expected")
    for table in ("partition_states", "partition_current", "topics", "brokers"):
        assert found[table] == expected[table]


def wait_for(directory: Path, offset: int, following: Future[Summary]) -> None:
    """Wait until the history reaches an offset; raise the error that ended the run, if any."""
    ends = time.monotonic() + PATIENCE_S
    while (manifest := read_manifest(directory)) is None or manifest.end < offset:
        if following.done():
            following.result()
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_views_and_queries_agree(views: SparkSession, built: History) -> None:
    reported = views.sql(
        "select (select struct(sum(isr_left) left, sum(isr_joined) joined, sum(changes) changes) from churn) churn,"
        " (select struct(sum(changes) changes, sum(lost) lost, sum(unclean) unclean) from leader_flaps) flaps,"
        " (select struct(sum(seconds) seconds, count(*) spells) from under_min_isr) under"
    ).first()
    assert reported is not None
    for summed, question in ((reported.churn, isr_churn), (reported.flaps, leader_flaps)):
        rows = question(built, None, 10_000)
        assert summed.asDict() == {name: sum(row[name] for row in rows) for name in summed.asDict()}
    rows = under_min_isr(built, None, 10_000)
    assert reported.under.seconds == pytest.approx(sum(row["seconds"] for row in rows))
    assert 0 < reported.under.spells <= sum(row["states"] for row in rows)


def test_each_reassignment_has_an_outcome(views: SparkSession, built: History) -> None:
    reassignments = views.sql("select * from reassignments").collect()
    outcomes = Counter(row.outcome for row in reassignments)
    causes = [state["cause"] for state in built.states(["cause"]).to_pylist()]
    assert outcomes.total() == causes.count("reassign_start")
    assert outcomes["done"] == causes.count("reassign_done")
    assert outcomes["cancelled"] == causes.count("reassign_cancelled")
    for row in (row for row in reassignments if row.outcome == "done"):
        assert set(row.replicas_after) == set(row.replicas_before) - set(row.removing) | set(row.adding)
        assert row.seconds >= 0
    columns = ["topic_id", "partition", "replicas", "adding", "removing", "from_offset", "to_offset"]
    before = {
        (state["topic_id"], state["partition"], state["to_offset"]): state["replicas"]
        for state in built.states(columns).to_pylist()
        if not state["adding"] and not state["removing"]
    }
    first = {
        (bytes(row.topic_id), row.partition, row.from_offset): row.replicas_before for row in reassignments
    }
    known = before.keys() & first.keys()
    assert known
    assert {key: first[key] for key in known} == {key: before[key] for key in known}


def test_reassignments_have_every_outcome(spark: SparkSession, tmp_path: Path) -> None:
    log = reassigned()
    # Ongoing reassignments are known across micro-batches.
    for start in range(0, len(log), 3):
        write(tmp_path, log[start : start + 3])
    register_views(spark, open_history(tmp_path))
    rows = spark.sql("select * from reassignments order by topic, partition, from_offset").collect()
    assert [(row.topic, row.partition, row.outcome, row.replicas_before, row.seconds) for row in rows] == [
        ("t", 0, "done", [1, 2, 3], 2),
        ("t", 1, "cancelled", [1, 2, 3], 2),
        ("t", 2, "replaced", [1, 2, 3], 1),
        ("t", 2, "cancelled", [1, 2, 3, 4], 1),
        ("t", 3, "cancelled", [1, 2, 3], 1),
        ("t", 4, "running", [1, 2, 3], 4),
        ("u", 0, "deleted", [1, 2, 3], 1),
    ]


def test_sql_prints_the_documented_columns(
    spark: SparkSession, built: History, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SparkOptions, "session", lambda self, profile: nullcontext(spark))
    (step,) = documented_outputs("quorumd pipeline history sql")
    assert root.run([*shlex.split(step.command)[1:], "--history", str(built.directory)]) == 0
    assert_as_documented("quorumd pipeline history sql", capsys.readouterr().out)


def test_sql_corrects_timestamps(spark: SparkSession, tmp_path: Path) -> None:
    write_with_wrong_clock(tmp_path, 3, timedelta(days=1))
    wrong = open_history(tmp_path)
    assert wrong.clocks.moved
    register_views(spark, wrong)
    columns = [*KEY, "from_ts", "to_offset", "to_ts"]
    reported = (
        spark.sql(f"select {','.join(columns)}, history_end() end from partition_states")
        .toArrow()
        .to_pylist()
    )
    assert {row.pop("end") for row in reported} == {wrong.end_ts}
    assert by(reported, *KEY) == by(wrong.states(columns).to_pylist(), *KEY)
