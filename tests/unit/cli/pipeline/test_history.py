"""`quorumd pipeline history show` and `top`, which work without Spark."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ParseException

from quorumd.cli import root
from quorumd.cli.pipeline.options import SparkOptions
from quorumd.pipeline.history.build import Summary
from quorumd.pipeline.report.history_sections import about_history, span_of_history
from quorumd.pipeline.report.report import read_history
from tests.support.documented_output import assert_as_documented, documented_outputs
from tests.support.history.logs import history
from tests.support.history.reference import NaiveHistory
from tests.support.history.writing import write
from tests.support.text import shows

DAY_US = 86_400_000_000


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, NaiveHistory]:
    directory = tmp_path_factory.mktemp("history")
    log, _ = history(3)
    write(directory, log[:250])
    write(directory, log[250:])
    naive = NaiveHistory()
    naive.apply(log)
    return directory, naive


def send(capsys: pytest.CaptureFixture[str], directory: Path, *words: str) -> list[dict[str, Any]]:
    arguments = ["pipeline", "history", *words, "--history", str(directory), "--output", "json"]
    assert root.run(arguments) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return rows


def failure(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = root.run(["pipeline", "history", *words])
    return code, capsys.readouterr().err


def test_shows_states_of_partition(
    built: tuple[Path, NaiveHistory], capsys: pytest.CaptureFixture[str]
) -> None:
    directory, naive = built
    states = [*naive.closed, *naive.open.values()]
    for topic in ("a", "b", "c"):
        rows = send(capsys, directory, "show", "partitions", "--topic", topic, "--partition", "1")
        wanted = [state for state in states if (state["topic"], state["partition"]) == (topic, 1)]
        expected = sorted(
            (state["from_offset"], state["leader"], state["isr"], state["cause"]) for state in wanted
        )
        assert [(row["from_offset"], row["leader"], row["isr"], row["cause"]) for row in rows] == expected
        assert rows


def test_since_and_until_limit_states(
    built: tuple[Path, NaiveHistory], capsys: pytest.CaptureFixture[str]
) -> None:
    directory, naive = built
    # The log has one record per millisecond since 1970; the last one is at its last offset.
    since, until = 300_000, 350_000
    words = "--since", "1970-01-01T00:00:00.300", "--until", "1970-01-01T00:00:00.350+00:00"
    rows = send(capsys, directory, "show", "partitions", *words)
    expected = [
        state["from_offset"]
        for state in [*naive.closed, *naive.open.values()]
        if state["from_ts"] < until and (state["to_ts"] is None or state["to_ts"] > since)
    ]
    assert sorted(row["from_offset"] for row in rows) == sorted(expected)
    assert 0 < len(rows) < len(naive.closed)


def test_top_lists_least_stable_partitions(
    built: tuple[Path, NaiveHistory], capsys: pytest.CaptureFixture[str]
) -> None:
    directory, naive = built
    states = [*naive.closed, *naive.open.values()]
    rows = send(capsys, directory, "top", "isr-churn", "--limit", "1000")
    assert sum(row["left"] for row in rows) == sum(state["isr_left"] for state in states)
    assert sum(row["joined"] for row in rows) == sum(state["isr_joined"] for state in states)
    assert [row["changes"] for row in rows] == sorted((row["changes"] for row in rows), reverse=True)
    assert send(capsys, directory, "top", "isr-churn", "--limit", "2") == rows[:2]
    flaps = send(capsys, directory, "top", "leader-flaps", "--limit", "1000")
    moved = [state for state in states if state["leader"] != state["leader_before"]]
    moved = [state for state in moved if state["cause"] not in ("created", "deleted")]
    assert sum(row["changes"] for row in flaps) == len(moved)
    assert sum(row["unclean"] for row in flaps) == [state["cause"] for state in moved].count("unclean")


def test_top_prints_the_documented_columns(
    built: tuple[Path, NaiveHistory], capsys: pytest.CaptureFixture[str]
) -> None:
    (step,) = documented_outputs("quorumd pipeline history top")
    assert root.run([*shlex.split(step.command)[1:], "--history", str(built[0])]) == 0
    assert_as_documented("quorumd pipeline history top", capsys.readouterr().out)


def test_top_under_min_isr_is_limited_to_window(
    built: tuple[Path, NaiveHistory], capsys: pytest.CaptureFixture[str]
) -> None:
    directory, naive = built
    states = [*naive.closed, *naive.open.values()]
    log, _ = history(3)
    end = log[-1].ts_us
    for window in (None, 0.1):
        since = 0 if window is None else end - 100_000
        rows = send(
            capsys,
            directory,
            "top",
            "under-min-isr",
            *(["--window", "0.1s"] if window else []),
            "--limit",
            "99",
        )
        expected = sum(
            max(0, (state["to_ts"] or end) - max(since, state["from_ts"]))
            for state in states
            if state["under_min_isr"]
        )
        assert sum(row["seconds"] for row in rows) == pytest.approx(expected / 1_000_000)


def test_shows_small_tables(built: tuple[Path, NaiveHistory], capsys: pytest.CaptureFixture[str]) -> None:
    directory, naive = built
    topics = send(capsys, directory, "show", "topics")
    assert sorted(topic["topic"] for topic in topics) == sorted(naive.names.values())
    last_of_log = send(capsys, directory, "show", "epochs", "--since", "0.001s")
    assert last_of_log[-1]["end_offset"] is None
    brokers = send(capsys, directory, "show", "brokers")
    assert {broker["event"] for broker in brokers} >= {"register", "fence", "unfence", "unregister"}
    assert send(capsys, directory, "show", "voters") == send(capsys, directory, "show", "lag") == []


def test_usage_errors_are_one_line(
    built: tuple[Path, NaiveHistory], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = failure(capsys, "top", "isr-churn", "--history", str(tmp_path))
    assert code == 8
    assert shows(text, "no history", tmp_path)
    there = "--history", str(built[0])
    code, text = failure(capsys, "show", "partitions", "--topic", "never", *there)
    assert code == 2
    assert shows(text, "error: ", "no topic 'never'")
    code, text = failure(capsys, "show", "partitions", "--since", "yesterday", *there)
    assert code == 2
    assert "'yesterday'" in text
    assert failure(capsys, "build", "--to", str(tmp_path))[0] == 2
    assert failure(capsys, "build", "--to", str(tmp_path), "--from", "x", "--bootstrap-server", "y:1")[0] == 2
    assert failure(capsys, "build", "--to", str(tmp_path), "--from", "x", "--follow", "--once")[0] == 2


@pytest.mark.parametrize(("given", "expected"), [(["--timeout", "1.5s"], "1500"), ([], "30000")])
def test_build_limits_requests_to_the_cluster_by_timeout(
    given: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = []

    def build(context: object, source: dict[str, str], *_: object, **__: object) -> Summary:
        sources.append(source)
        return Summary(0, 0.0, 0, 0, 0)

    monkeypatch.setattr(SparkOptions, "context", lambda self, profile: nullcontext())
    # A session costs seconds of start that a build does not need.
    monkeypatch.delattr(SparkOptions, "session")
    monkeypatch.setattr("quorumd.pipeline.history.build.build", build)
    command = ["pipeline", "history", "build", "--bootstrap-server", "127.0.0.1:1", "--to", str(tmp_path)]
    assert root.run([*command, *given]) == 0
    assert sources == [{"bootstrap": "127.0.0.1:1", "timeoutMs": expected}]


def test_invalid_sql_is_usage_error(
    built: tuple[Path, NaiveHistory], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Session:
        def sql(self, query: str) -> None:
            raise ParseException(f"[PARSE_SYNTAX_ERROR] near {query!r}\n\n== SQL ==\n{query}")

    monkeypatch.setattr(SparkOptions, "session", lambda self, profile: nullcontext(Session()))
    monkeypatch.setattr("quorumd.pipeline.history.history.register_views", lambda session, opened: None)
    code, text = failure(capsys, "sql", "selec 1", "--history", str(built[0]))
    assert code == 2
    assert shows(text, "error: ", "[PARSE_SYNTAX_ERROR] near 'selec 1'\n")
    assert "== SQL ==" not in text


def test_damaged_table_is_incomplete_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, history(3)[0])
    (table,) = tmp_path.glob("brokers/*/*.parquet")
    table.write_bytes(b"PAR1 no more")
    code, text = failure(capsys, "show", "brokers", "--history", str(tmp_path))
    assert code == 8
    assert shows(text, "error: ", "damaged")
    assert str(table) in text
    assert text.count("\n") == 1


def test_show_and_top_start_no_java(built: tuple[Path, NaiveHistory]) -> None:
    code = (
        "import sys; from quorumd.cli.root import run; code = run(sys.argv[1:]); "
        "sys.exit(code or ' '.join(name for name in sys.modules if name.startswith(('pyspark', 'py4j'))))"
    )
    words = ["pipeline", "history", "top", "isr-churn", "--history", str(built[0])]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.stderr == "\n"
    assert "Changes" in done.stdout


@pytest.fixture(scope="module")
def built_by_a_wrong_clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same log, but the leader of epoch 3 was 30 days ahead."""
    directory = tmp_path_factory.mktemp("wrong-clock")
    log, _ = history(3)
    write(directory, [each._replace(ts_us=each.ts_us + 30 * DAY_US * (each.epoch == 3)) for each in log])
    return directory


def test_wrong_leader_clock_does_not_change_durations(
    built: tuple[Path, NaiveHistory], built_by_a_wrong_clock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "top", "under-min-isr", "--limit", "1000"
    expected, found = send(capsys, built[0], *words), send(capsys, built_by_a_wrong_clock, *words)

    def by_partition(rows: list[dict[str, Any]]) -> dict[Any, Any]:
        return {(row["topic"], row["partition"], row["states"]): row["seconds"] for row in rows}

    assert by_partition(found) == pytest.approx(by_partition(expected), abs=0.05)
    rows = send(capsys, built_by_a_wrong_clock, "show", "partitions")
    assert max(row["from_ts"] for row in rows) < "1970-01-01T00:00:01"
    assert all("d" not in row["lasted"] and "-" not in row["lasted"] for row in rows)


def test_report_corrects_wrong_clock(built: tuple[Path, NaiveHistory], built_by_a_wrong_clock: Path) -> None:
    right, wrong = read_history(built[0]), read_history(built_by_a_wrong_clock)
    assert (right.moved_epochs, wrong.moved_epochs) == (0, 1)
    assert span_of_history(wrong) == pytest.approx(span_of_history(right), abs=0.05)
    assert "wrong in 1 epoch," in about_history(wrong)
    assert "wrong" not in about_history(right)
