"""`simulate`: seeds in order, whatever the number of processes; a violation is reported with the command that
repeats it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from quorumd.cli import simulate
from quorumd.cli.root import run
from quorumd.simulator import run as simulator_run
from quorumd.simulator.options import SimulationOptions
from quorumd.simulator.profiles.draw import draw_options
from quorumd.simulator.report import Report, Violation
from tests.support.text import shows


@pytest.fixture
def seeds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The requested seeds, in a simulator in which every seed that ends in 3 violates an invariant."""
    request: list[int] = []

    def run_seeds(
        first: int, count: int, options: object, progress: Callable[[Report], None]
    ) -> list[Report]:
        assert count == 1
        request.append(first)
        broken = (Violation(1.0, "one leader per epoch", "two of them"),) if first % 10 == 3 else ()
        return [Report(first, SimulationOptions(), "abc", 1000.0, 10, broken)]

    monkeypatch.setattr(simulator_run, "run_seeds", run_seeds)
    return request


def test_all_seeds_are_run_and_summarized(seeds: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--seed", "4", "--seeds", "3", "--jobs", "1"]) == 0
    assert seeds == [4, 5, 6]
    out = capsys.readouterr().out
    assert shows(out, "seeds 4 to 6", "30 events", "3.0 s")


def test_violation_is_reported_with_repro_command(
    seeds: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", "--seed", "2", "--seeds", "3", "--jobs", "1", "--no-shrink"]) == 1
    out = capsys.readouterr().out
    assert shows(out, "one leader per epoch", "two of them")
    assert "reproduce: quorumd simulate --seed 3\n" in out
    assert shows(out, "seeds 2 to 4", "1 failed", "3")
    assert seeds == [2, 3, 4]


def test_random_seed_is_chosen_and_printed(seeds: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    run(["simulate", "--no-shrink"])
    run(["simulate", "--no-shrink"])
    assert seeds[0] != seeds[1]
    assert f"seed {seeds[0]}: " in capsys.readouterr().out


def test_json_names_violated_invariant(seeds: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--seed", "13", "--output", "json"]) == 1
    (report,) = json.loads(capsys.readouterr().out)
    assert (report["ok"], report["violations"][0]["invariant"]) == (False, "one leader per epoch")


def test_shorter_run_is_added_to_report(
    seeds: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def shrunk(report: Report, seconds: float) -> Report:
        options = replace(draw_options(report.seed, "swarm"), only_faults=(2, 5))
        return replace(report, options=options, trace_hash="shorter", events=1)

    monkeypatch.setattr(simulate, "_shrunk", shrunk)
    line = "quorumd simulate --seed 13 --only-faults 2,5"
    assert run(["simulate", "--seed", "13"]) == 1
    out = capsys.readouterr().out
    assert shows(out, "shorter", f"{line}\n")
    assert "10 events" in out
    assert out.endswith("; trace abc\n")
    assert run(["simulate", "--seed", "13", "--output", "json"]) == 1
    (report,) = json.loads(capsys.readouterr().out)
    assert (report["trace_hash"], report["events"], report["shorter"]) == ("abc", 10, line)
    assert run(["simulate", "--seed", "13", "--no-shrink", "--output", "json"]) == 1
    assert "shorter" not in json.loads(capsys.readouterr().out)[0]


def test_parallel_run_finds_same_violations(capsys: pytest.CaptureFixture[str]) -> None:
    traces = []
    for jobs in ("1", "2"):
        assert run(["simulate", "--seed", "7", "--seeds", "2", "--jobs", jobs, "--output", "json"]) == 0
        traces.append([(row["seed"], row["trace_hash"]) for row in json.loads(capsys.readouterr().out)])
    assert traces[0] == traces[1]


def test_profiles_are_listed_and_unknown_one_is_rejected(
    seeds: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", "--profile", "help"]) == 0
    header, *listed = capsys.readouterr().out.splitlines()
    assert header.split() == ["Profile", "Faults"]
    assert any(re.match("disk  +Power losses", line) for line in listed)
    names = [re.match("[A-Za-z ]+?  +(?=[A-Z])", line) for line in listed]
    assert len({name.end() for name in names if name}) == 1
    assert all(names)
    assert run(["simulate", "--profile", "no-such"]) == 2
    assert shows(capsys.readouterr().err, "'no-such'", "swarm", "calm")
    assert seeds == []


def test_fault_that_seed_never_draws_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    seed = ["simulate", "--seed", "7", "--jobs", "1"]
    assert run([*seed, "--output", "json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert run([*seed, "--only-faults", "0,99"]) == 2
    reported = re.search(
        r"--only-faults 99: seed 7 draws faults 0 to (\d+) in its [\d.]+ ms", capsys.readouterr().err
    )
    assert reported
    assert max(fault["number"] for fault in report["faults"]) <= int(reported[1]) < 99
    assert run([*seed, "--explain", "--only-faults", "99"]) == 2
    assert run([*seed, "--only-faults", f"0,{reported[1]}"]) == 0
    assert run([*seed, "--only-faults", "-1"]) == 2
    # The command of a shortened run may name faults after its end.
    assert run([*seed, "--only-faults", f"0,{reported[1]}", "--safety-duration", "100ms"]) == 0


def test_span_requires_explain(seeds: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--seed", "7", "--from", "100ms"]) == 2
    assert shows(capsys.readouterr().err, "--from", "--to", "--explain", "--html")
    assert run(["simulate", "--seed", "7", "--explain", "--to", "-1"]) == 2
    assert seeds == []
