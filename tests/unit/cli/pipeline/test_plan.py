"""`quorumd pipeline plan` on the tables of a history, in this process and without a JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quorumd.cli import options, root
from quorumd.cli.partitions.reassignment_progress import PartitionProgress, State
from quorumd.cli.pipeline import plan_execution as pipeline_plan_execution
from quorumd.cli.pipeline import plan_state as pipeline_plan_state
from quorumd.cli.pipeline.plan_parameters import factor, racked_brokers
from quorumd.client.admin import TopicPartition
from quorumd.errors import MalformedMessage, QuorumdError, RequestFailed, UnsupportedVersion
from quorumd.pipeline.history.tables import Manifest, path_in, write_manifest, write_rows
from scripts.skewed_states import skewed_state
from tests.support.documented_output import assert_as_documented
from tests.support.text import shows

STATE = skewed_state(40, ["a", "b", "c", "a", "b", "c"], skew=1)


def write_history(directory: Path, fenced: int = -1, cordoned: int = -1) -> Path:
    names = [STATE.names[topic] for topic in STATE.topics]
    common: dict[str, list[int]] = {"adding": [], "removing": []}
    partitions = [
        {"topic": name, "partition": number, "replicas": row, "isr": row, "leader": row[0], **common}
        for name, number, row in zip(names, STATE.partitions.tolist(), STATE.replicas.tolist(), strict=True)
    ]
    brokers = [
        {
            "broker_id": id,
            "rack": broker.rack,
            "event": "unfence",
            "fenced": id == fenced,
            "log_dirs": [b"one", b"two"],
            "cordoned_log_dirs": [b"two", b"one"] if id == cordoned else [b"two"],
            "from_offset": id,
        }
        for id, broker in STATE.brokers.items()
    ]
    manifest = Manifest()
    for table, rows in (("brokers", brokers), ("partition_current", partitions)):
        path = path_in(table, 0, "all")
        write_rows(directory, path, table, rows, "c")
        manifest.files[table] = [path]
    write_manifest(directory, manifest)
    return directory


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return write_history(tmp_path / "history")


def run(*arguments: str | Path, exits: int = 0) -> None:
    assert root.run(["pipeline", "plan", *map(str, arguments)]) == exits


def test_plan_is_made_and_shown(history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "plan"
    run("make", "--state", history, "--remove", "5", "--add", "6:c,7", "--rack", "7=a", "--out", directory)
    reported = capsys.readouterr()
    assert "of 40 partitions change" in reported.out
    assert_as_documented("quorumd pipeline plan make", reported.out)
    assert reported.err == f"written to {directory}\n"
    run("show", directory, "--output", "json")
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["moves"] == document["lower_bound"]
    assert document["made_from"]["state"] == f"history {history}"
    assert document["made_from"]["options"] == {
        "remove": [5],
        "add": {"6": "c", "7": None},
        "racks": [["7", "a"]],
    }
    run("show", directory, "--brokers", "--output", "json")
    brokers = {row["broker"]: row for row in json.loads(capsys.readouterr().out)}
    assert (brokers[5]["replicas_after"], brokers[6]["replicas_before"]) == (0, 0)
    assert brokers[7]["rack"] == "a"
    run("show", directory, "--moves", "--wave", "1", "--output", "jsonl")
    moves = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {move["wave"] for move in moves} == {1}
    run("verify", directory, "--state", history, "--output", "csv", exits=1)
    assert capsys.readouterr().out.startswith(
        "wave,partitions,done,in_progress,not_begun,superseded,missing\n1,"
    )


def test_broker_without_replicas_may_be_wiped(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "plan"
    run("make", "--state", history, "--remove", "5", "--out", directory)
    capsys.readouterr()
    run("verify", directory, "--state", history, "--may-wipe", "5", "--output", "json", exits=1)
    shown = capsys.readouterr()
    held = json.loads(shown.out)
    assert held
    assert all(5 in row["replicas"] and row["settled"] for row in held)
    assert shows(shown.err, "broker 5", len(held))
    run("verify", directory, "--state", history, "--may-wipe", "99")
    assert shows(capsys.readouterr().out, "broker 99", "may be wiped")
    run("verify", directory, "--state", history, "--may-wipe", "5", "--differences", exits=2)


def test_plan_balances_bytes(history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = tmp_path / "sizes.csv"
    lines = [
        f"{STATE.names[topic]},{number},{1000 + number}"
        for topic, number in zip(STATE.topics, STATE.partitions, strict=True)
    ]
    sizes.write_text("\n".join(["topic,partition,bytes", *lines]))
    run("make", "--state", history, "--sizes", sizes, "--out", tmp_path / "plan")
    assert shows(capsys.readouterr().out, "bytes", "minimum")
    run("show", tmp_path / "plan", "--moves", "--output", "json")
    for move in json.loads(capsys.readouterr().out):
        assert move["bytes"] == len(move["adds"]) * (1000 + move["partition"])


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--remove", "99"), 2, "broker 99"),
        (("--add", "6:"), 2, "'6:'"),
        (("--add", "6,6"), 2, "broker 6 is given twice"),
        (("--replace", "7"), 2, "OLD=NEW"),
        (("--replace", "x=7"), 2, "expected broker ids"),
        (("--replace", "5=7", "--replace", "5=8"), 2, "broker 5 is given twice"),
        (("--rack", "x=7"), 2, "expected a broker id"),
        (("--replication-factor", "0"), 2, "is not N or TOPIC=N"),
        (("--topics", "nowhere"), 2, "topic 'nowhere'"),
        (("--bootstrap-server", "127.0.0.1:1"), 2, "--state, --bootstrap-server and --from"),
    ],
)
def test_impossible_changes_are_reported_in_one_line(
    history: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    text: str,
) -> None:
    run("make", "--state", history, *arguments, "--out", tmp_path / "plan", exits=code)
    reported = capsys.readouterr()
    assert text in reported.err
    assert reported.err.count("\n") == 1
    assert not (tmp_path / "plan").exists()


def test_missing_history_or_plan_is_incomplete_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("make", "--state", tmp_path / "none", "--out", tmp_path / "plan", exits=8)
    run("show", tmp_path / "plan", exits=8)
    run("apply", tmp_path / "plan", "--bootstrap-server", "127.0.0.1:1", exits=8)
    assert capsys.readouterr().err.count("\n") == 3


def test_existing_directory_is_not_overwritten(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("make", "--state", history, "--out", history, exits=2)
    assert shows(capsys.readouterr().err, history, "already exists")


def test_fenced_broker_requires_explicit_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = write_history(tmp_path / "history", fenced=5)
    run("make", "--state", history, "--out", tmp_path / "plan", exits=2)
    assert shows(capsys.readouterr().err, "broker 5 is fenced", "--remove 5")
    run("make", "--state", history, "--include-fenced", "--out", tmp_path / "as-if-up")
    run("make", "--state", history, "--remove", "5", "--out", tmp_path / "without")


def test_plan_rejects_cordoned_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = write_history(tmp_path / "history", cordoned=5)
    run("make", "--state", history, "--out", tmp_path / "plan", exits=2)
    assert shows(capsys.readouterr().err, "broker 5", "cordoned")
    run("make", "--state", history, "--remove", "5", "--out", tmp_path / "without")
    moves = [
        json.loads(file.read_text())["partitions"] for file in (tmp_path / "without" / "waves").iterdir()
    ]
    assert not any(5 in partition["replicas"] for wave in moves for partition in wave)


def test_unknown_waves_are_rejected(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("make", "--state", history, "--out", tmp_path / "plan")
    run("apply", tmp_path / "plan", "--bootstrap-server", "127.0.0.1:1", "--wave", "99", exits=2)
    assert "--wave 99: the plan in" in capsys.readouterr().err
    run("show", tmp_path / "plan", "--wave", "1", exits=2)
    run("show", tmp_path / "plan", "--brokers", "--moves", exits=2)


def test_option_values_are_parsed() -> None:
    assert racked_brokers("21:rackC, 22") == {21: "rackC", 22: None}
    assert factor("3") == ("", 3)
    assert factor("a=b=4") == ("a=b", 4)


def test_unreadable_wave_is_incomplete_input(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("make", "--state", history, "--remove", "5", "--out", tmp_path / "plan")
    wave = tmp_path / "plan" / "waves" / "0001.json"
    for damage in (lambda: wave.write_text('{"version":1,'), wave.unlink):
        damage()
        capsys.readouterr()
        run("apply", tmp_path / "plan", "--bootstrap-server", "127.0.0.1:1", exits=8)
        reported = capsys.readouterr().err
        assert reported.startswith(f"error: {wave}: ")
        assert reported.count("\n") == 1


def test_unresponsive_cluster_is_incomplete_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limits_ms = []

    def unreachable(servers: object, question: object, patience_ms: float = 1.0, **how: object) -> None:
        limits_ms.append(patience_ms)
        raise RequestFailed("no answer")

    monkeypatch.setattr(pipeline_plan_state, "run_admin", unreachable)
    run("make", "--bootstrap-server", "127.0.0.1:1", "--out", tmp_path / "plan", exits=8)
    assert capsys.readouterr().err == "error: no answer\n"
    assert limits_ms == [10_000.0], "as soon as other commands report it"


@pytest.mark.parametrize("command", ["apply", "rollback"])
def test_timeout_limits_requests_and_wave_timeout_limits_waves(
    command: str,
    history: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = tmp_path / "plan"
    run("make", "--state", history, "--remove", "5", "--out", directory)
    [planned, *_] = json.loads((directory / "waves" / "0001.json").read_text())["partitions"]
    where = TopicPartition(planned["topic"], planned["partition"])
    moving = PartitionProgress(where, tuple(planned["replicas"]), State.MOVING)
    requests_s: list[float] = []
    waves_s: list[float] = []

    def request_cluster(servers: Any, question: Any) -> list[PartitionProgress]:
        requests_s.append(options.timeout_s())
        return [moving]

    def wait_until_done(servers: Any, plan: Any, wait_s: float) -> list[PartitionProgress]:
        waves_s.append(wait_s)
        return [moving._replace(state=State.DONE)]

    monkeypatch.setattr(pipeline_plan_execution, "request_cluster", request_cluster)
    monkeypatch.setattr(pipeline_plan_execution, "wait_until_done", wait_until_done)
    monkeypatch.setattr(pipeline_plan_execution, "run_admin", lambda *arguments, **others: {})
    live = ("--bootstrap-server", "127.0.0.1:1", "--execute", "--wave", "1")
    run(command, directory, *live, "--timeout", "3s", "--wave-timeout", "2m")
    run(command, directory, *live)
    assert (requests_s, waves_s) == ([3.0, 60.0], [120.0, 3600.0])


def test_shown_wave_must_be_in_plan(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("make", "--state", history, "--remove", "5", "--out", tmp_path / "plan")
    run("show", tmp_path / "plan", "--moves", "--wave", "99", exits=2)
    assert "--wave 99: the plan in" in capsys.readouterr().err


def test_unwritable_plan_is_failed_job(
    history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    run("make", "--state", history, "--out", tmp_path / "file" / "plan", exits=7)
    assert capsys.readouterr().err == f"error: {tmp_path / 'file' / 'plan' / 'waves'}: Not a directory\n"


@pytest.mark.parametrize("error", [RequestFailed("none"), UnsupportedVersion("old"), MalformedMessage("bad")])
def test_failed_request_is_not_a_finding(
    history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: QuorumdError
) -> None:
    def request_cluster(servers: Any, question: Any) -> Any:
        raise error

    monkeypatch.setattr(pipeline_plan_state, "request_cluster", request_cluster)
    run("make", "--bootstrap-server", "127.0.0.1:1", "--out", tmp_path / "1", exits=8)


def test_environment_supplies_cluster_unless_options_do(
    history: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the options and the environment variable of all other commands."""
    used = []

    def request_cluster(servers: Any, question: Any) -> Any:
        used.append(servers)
        return STATE

    monkeypatch.setattr(pipeline_plan_state, "request_cluster", request_cluster)
    run("make", "--bootstrap-server", "127.0.0.1:1", "--out", tmp_path / "1")
    monkeypatch.setenv("QUORUMD_BOOTSTRAP_SERVER", "127.0.0.1:2")
    run("make", "--out", tmp_path / "2")
    run("make", "--state", history, "--out", tmp_path / "3")
    assert used == [(("127.0.0.1", 1),), (("127.0.0.1", 2),)]
    run("make", "--state", history, "--bootstrap-server", "127.0.0.1:3", "--out", tmp_path / "4", exits=2)
    assert shows(capsys.readouterr().err, "--state", "--bootstrap-server", "--from")
