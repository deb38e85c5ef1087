"""Histories through Spark; folds and files are tested without it, in tests/unit/pipeline."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorumd.errors import ConfigError
from quorumd.pipeline.history.build import build
from quorumd.pipeline.history.history import History, open_history, register_views
from quorumd.pipeline.history.questions import isr_churn, leader_flaps, under_min_isr
from quorumd.pipeline.history.tables import only_writer
from scripts.generated_log import GeneratedLog, LogShape, generate
from tests.support.history_content import by, content
from tests.support.history_logs import history, read_log, write_segment, write_snapshot_of
from tests.support.history_rows import plain_states
from tests.support.naive_history import NaiveHistory

SHAPE = LogShape(records=6_000, segment_bytes=100_000, nodes=2, epoch_records=2_000, topics=6, partitions=8)
KEY = "topic_id", "partition", "from_offset"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> GeneratedLog:
    return generate(tmp_path_factory.mktemp("log"), SHAPE)


@pytest.fixture(scope="module")
def source(log: GeneratedLog) -> dict[str, str]:
    return {"path": ",".join(f"{node}={folder}" for node, folder in log.folders.items())}


@pytest.fixture(scope="module")
def built(spark: SparkSession, source: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> History:
    """Of the whole log at once."""
    folder = tmp_path_factory.mktemp("history")
    build(spark, source, folder)
    return open_history(folder)


def test_the_history_of_a_log_is_that_of_a_plain_state_machine(log: GeneratedLog, built: History) -> None:
    naive = NaiveHistory()
    records = read_log(log.folders[1])
    naive.apply(records)
    found = plain_states(built.read("partition_states"))
    assert by(found, *KEY) == by(naive.closed, *KEY)
    assert by(plain_states(built.read("partition_current")), *KEY) == by([*naive.open.values()], *KEY)
    events = built.read("events").filter(built.read("events")["control"].cast("int8").cast("bool"))
    assert built.manifest.end == log.end_offset == len(built.read("events")) == len(records) + len(events)
    epochs = built.read("epochs").to_pylist()
    assert [epoch["epoch"] for epoch in epochs] == list(range(1, log.epoch + 1))
    assert sum(epoch["records"] for epoch in epochs) == log.end_offset


def test_a_run_that_was_killed_goes_on_as_if_nothing_had_happened(
    spark: SparkSession, source: dict[str, str], built: History, tmp_path: Path
) -> None:
    """Killed between the history and the checkpoint, so that a micro-batch is replayed."""
    code = (
        "import os, signal, sys, json\n"
        "from pathlib import Path\n"
        "from quorumd.pipeline.history import writer\n"
        "from quorumd.pipeline.history.build import build\n"
        "from quorumd.pipeline.session import spark_session\n"
        "published = writer.write_manifest\n"
        "def publish(folder, manifest):\n"
        "    published(folder, manifest)\n"
        "    if manifest.end > 2500:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "writer.write_manifest = publish\n"
        "with spark_session('local[1]', 'small') as session:\n"
        "    build(session, json.loads(sys.argv[1]), Path(sys.argv[2]))\n"
    )
    limited = source | {"maxOffsetsPerTrigger": "1500"}
    killed = subprocess.run(
        [sys.executable, "-c", code, json.dumps(limited), str(tmp_path)], timeout=120, check=False
    )
    assert killed.returncode == -9
    assert 2500 < open_history(tmp_path).manifest.end < built.manifest.end
    build(spark, limited, tmp_path)
    assert content(tmp_path) == content(built.folder)


def test_a_log_that_begins_behind_a_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    whole, _ = history(11, 300)
    cut = 180
    _, image = history(11, cut)
    folder = write_segment(tmp_path / "node", whole[cut:])
    write_snapshot_of(folder, image, whole[cut - 1])
    build(spark, {"path": f"1={folder}"}, tmp_path / "history")
    found = open_history(tmp_path / "history")
    naive = NaiveHistory()
    naive.apply(whole[:cut])
    at_the_cut = len(naive.open)
    naive.apply(whole[cut:])
    end = whole[cut - 1].offset
    states = plain_states(found.states())
    seeded = [state for state in states if state["cause"] == "snapshot"]
    assert len(seeded) == at_the_cut
    assert {state["from_offset"] for state in seeded} == {end}
    since = [state for state in states if state["from_offset"] > end]
    expected = [state for state in [*naive.closed, *naive.open.values()] if state["from_offset"] > end]
    assert by(since, *KEY) == by(expected, *KEY)
    assert found.manifest.begin == end + 1


def test_views_and_questions_say_the_same(spark: SparkSession, built: History) -> None:
    register_views(spark, built)
    churn = spark.sql(
        "select sum(isr_left) left, sum(isr_joined) joined, sum(changes) changes from churn"
    ).first()
    rows = isr_churn(built, None, 10_000)
    assert churn is not None
    assert churn.asDict() == {name: sum(row[name] for row in rows) for name in ("left", "joined", "changes")}
    flaps = spark.sql(
        "select sum(changes) changes, sum(lost) lost, sum(unclean) unclean from leader_flaps"
    ).first()
    rows = leader_flaps(built, None, 10_000)
    assert flaps is not None
    assert flaps.asDict() == {name: sum(row[name] for row in rows) for name in ("changes", "lost", "unclean")}
    under = spark.sql("select sum(seconds) seconds, count(*) spells from under_min_isr").first()
    rows = under_min_isr(built, None, 10_000)
    assert under is not None
    assert under.seconds == pytest.approx(sum(row["seconds"] for row in rows))
    assert 0 < under.spells <= sum(row["states"] for row in rows)


def test_reassignments_have_an_end_each(spark: SparkSession, built: History) -> None:
    register_views(spark, built)
    outcomes = {
        row.outcome: row.n
        for row in spark.sql("select outcome, count(*) n from reassignments group by 1").collect()
    }
    causes = [state["cause"] for state in built.states(["cause"]).to_pylist()]
    assert sum(outcomes.values()) == causes.count("reassign_start")
    assert outcomes["done"] == causes.count("reassign_done")
    for row in spark.sql("select * from reassignments where outcome = 'done'").collect():
        assert set(row.replicas_after) == set(row.replicas_before) - set(row.removing) | set(row.adding)
        assert row.seconds >= 0
    columns = ["topic_id", "partition", "replicas", "adding", "removing", "from_offset", "to_offset"]
    before = {
        (state["topic_id"], state["partition"], state["to_offset"]): state["replicas"]
        for state in built.states(columns).to_pylist()
        if not state["adding"] and not state["removing"]
    }
    starts = spark.sql("select * from reassignments").collect()
    first = {(row.topic_id, row.partition, row.from_offset): row.replicas_before for row in starts}
    known = before.keys() & {(bytes(topic), *where) for topic, *where in first}
    assert known
    assert {key: first[key] for key in known} == {key: before[key] for key in known}


def test_two_builds_do_not_write_one_history(
    spark: SparkSession, source: dict[str, str], tmp_path: Path
) -> None:
    with only_writer(tmp_path), pytest.raises(ConfigError, match="being written by another"):
        build(spark, source, tmp_path)


def test_the_history_of_another_cluster_is_left_alone(
    spark: SparkSession, log: GeneratedLog, source: dict[str, str], tmp_path: Path
) -> None:
    folder = write_segment(tmp_path / "node", history(1, 20)[0])
    for cluster in ("one", "another"):
        (folder / "meta.properties").write_text(f"version=1\ncluster.id={cluster}\nnode.id=1\n")
        if cluster == "one":
            build(spark, {"path": f"1={folder}"}, tmp_path / "history")
    with pytest.raises(ConfigError, match="the history of cluster one, and this log is of another"):
        build(spark, {"path": f"1={folder}"}, tmp_path / "history")
