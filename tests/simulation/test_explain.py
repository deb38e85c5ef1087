"""Explanations of a run: its timeline, its diagram, and a shorter run with the same violation."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise

import pytest

from quorumd.cli.root import run
from quorumd.node.commit_listeners import CommitListeners
from quorumd.raft import election
from quorumd.simulator.explain.diagram_page import LANE, LEFT
from quorumd.simulator.explain.sequence_diagram import FOLDED_FROM, MARKED_EVERY, MAX_ROWS, page
from quorumd.simulator.explain.shrink import MAX_RUNS, shrink
from quorumd.simulator.explain.timeline import Entry, Timeline, lines, window
from quorumd.simulator.explain.wire_tap import Message
from quorumd.simulator.options import SimulationOptions
from quorumd.simulator.profiles.draw import draw_options
from quorumd.simulator.report import Report
from quorumd.simulator.simulation import Simulation

SEED = 3


@pytest.fixture(scope="module")
def explained() -> tuple[Report, Timeline]:
    timeline = Timeline()
    return Simulation(SEED, timeline=timeline).run(), timeline


def simulate(seed: int, options: SimulationOptions) -> Report:
    return Simulation(seed, options).run()


def test_run_is_the_same_with_and_without_a_timeline(explained: tuple[Report, Timeline]) -> None:
    assert explained[0].trace_hash == Simulation(SEED).run().trace_hash


@pytest.mark.parametrize("profile", ["disk", "operator", "clocks"])
def test_timeline_does_not_affect_runs_of_other_profiles(profile: str) -> None:
    options = replace(draw_options(SEED, profile), safety_ms=3000.0)
    plain, observed = simulate(SEED, options), Simulation(SEED, options, Timeline()).run()
    assert (observed.trace_hash, observed.counters) == (plain.trace_hash, plain.counters)


def test_power_loss_during_a_start_is_shown() -> None:
    """Its log, which was never opened, is not shown as truncated."""
    options = SimulationOptions(faults={"power loss in a disk call": 1.0}, fault_interval_ms=200.0)
    ended_at_once = 0
    for seed in range(1, 6):
        timeline = Timeline()
        Simulation(seed, options, timeline).run()
        entries = [entry for entry in timeline.entries if entry.lane != "clients"]
        for index, entry in enumerate(entries):
            if entry.text != "ends" or not entries[index - 1].text.startswith("starts"):
                continue
            ended_at_once += 1
            until = next(
                (i for i in range(index, len(entries)) if entries[i].text.startswith("starts")), None
            )
            down = [e.text for e in entries[index + 1 : until] if e.lane == entry.lane]
            assert not [text for text in down if text.startswith(("log cut", "durable"))]
    assert ended_at_once


def test_restarts_do_not_truncate_logs() -> None:
    timeline = Timeline()
    Simulation(1, SimulationOptions(faults={"kill": 1.0}, safety_ms=5000.0), timeline).run()
    assert sum(entry.text.startswith("starts, incarnation 2") for entry in timeline.entries) > 0
    assert not [entry.text for entry in timeline.entries if entry.text == "log truncated to offset 0"]


def test_violation_during_a_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("planted")

    monkeypatch.setattr("quorumd.simulator.cluster.start_node", broken)
    timeline = Timeline()
    assert not Simulation(SEED, timeline=timeline).run().ok
    assert timeline.entries[-1].text == "BROKEN: no unexpected errors"


def test_timeline_shows_elections_disks_messages_and_clients(explained: tuple[Report, Timeline]) -> None:
    report, timeline = explained
    texts = [str(entry) for entry in timeline.entries]
    leaders = [entry for entry in timeline.entries if re.match(r"leader in epoch \d+, leader \d", entry.text)]
    assert len(leaders) == report.counters["elections"]
    for pattern in (
        r"node \d  +-> node \d: VoteRequest .*epoch \d+.*pre-vote.*\[arrives after",
        r"node \d  +quorum-state: epoch \d+, voted for \d",
        r"node \d  +durable up to offset \d+",
        r"node \d  +high watermark \d+",
        r"records \d+\.\.\d+",
        r"clients  +append of list",
    ):
        assert any(re.search(pattern, text) for text in texts), pattern
    faults = [entry.text for entry in timeline.entries if re.match(r"fault \d+: ", entry.text)]
    assert faults == [f"fault {number}: {name}" for number, _, name in report.injected]
    times = [entry.time_ms for entry in timeline.entries]
    assert times == sorted(times)


def test_vote_is_durable_before_its_response_is_sent(explained: tuple[Report, Timeline]) -> None:
    """KIP-595: the vote is durable before the response."""
    entries = explained[1].entries
    votes = 0
    for index, entry in enumerate(entries):
        if entry.text == "VoteResponse" and "granted" in entry.details:
            before = entries[:index]
            request = [
                e for e in before if e.text == "VoteRequest" and (e.lane, e.to) == (entry.to, entry.lane)
            ][-1]
            if "pre-vote" not in request.details:
                saved = [e for e in before if e.lane == entry.lane and e.text.startswith("quorum-state")]
                epoch = next(detail for detail in request.details if detail.startswith("epoch"))
                assert saved[-1].text == f"quorum-state: {epoch}, voted for {request.lane.split()[1]}"
                votes += 1
    assert votes > 0


def test_idle_messages_are_folded_and_windows_cut(explained: tuple[Report, Timeline]) -> None:
    entries = explained[1].entries
    text = list(lines(entries))
    assert len(text) < len(entries)
    folded = sum(int(match[1]) for line in text if (match := re.search(r"(\d+) routine messages", line)))
    assert len(text) + folded - sum("routine messages" in line for line in text) == len(entries)
    cut = window(entries, 1000.0, 2000.0)
    assert cut
    assert all(1000.0 <= entry.time_ms <= 2000.0 for entry in cut)


def test_page_holds_everything_and_needs_nothing(explained: tuple[Report, Timeline]) -> None:
    timeline = explained[1]
    text = page("a title <&>", ["it <broke>"], timeline.lanes, timeline.entries)
    assert "a title &lt;&amp;&gt;" in text
    assert "it &lt;broke&gt;" in text
    assert not re.search(r"(src|href)=|https?://|@import|url\(", text)
    details = json.loads(text.split("const DETAILS=")[1].split(";\n")[0].replace("<\\/", "</"))
    assert text.count('class="entry') == len(details)
    assert "\n".join(details).split("\n") == [
        line for entry in timeline.entries for line in str(entry).strip().split("\n")
    ]
    assert f"{len(timeline.entries):,} entries" in text


def test_routine_messages_share_a_row_of_the_page(explained: tuple[Report, Timeline]) -> None:
    timeline = explained[1]
    text = page("", [], timeline.lanes, timeline.entries)
    together = [int(count) for count in re.findall(r"… (\d+) routine", text)]
    assert together
    assert min(together) >= FOLDED_FROM
    assert text.count('class="entry') == len(timeline.entries) - sum(together) + len(together)


def test_every_message_drawn_can_be_hidden_by_its_name(explained: tuple[Report, Timeline]) -> None:
    timeline = explained[1]
    text = page("", [], timeline.lanes, timeline.entries)
    drawn = set(re.findall(r'data-name="([^"]+)"', text))
    assert {"VoteRequest", "VoteResponse"} <= drawn
    assert drawn <= set(re.findall(r'<input type="checkbox" checked value="([^"]+)">', text))


def test_page_shows_roles_and_epochs_without_colour(explained: tuple[Report, Timeline]) -> None:
    timeline = explained[1]
    text = page("", [], timeline.lanes, timeline.entries)
    marks = set(re.findall(r'class="mark"[^>]*>(\w \d+)<', text))
    roles = {(entry.text[0].upper(), entry.epoch) for entry in timeline.entries if entry.kind == "role"}
    assert all(entry.epoch >= 0 for entry in timeline.entries if entry.kind == "role")
    assert {mark.split()[0] for mark in marks} == {role for role, _ in roles}
    assert marks <= {f"{role} {epoch}" for role, epoch in roles}
    # What a node is, is in sight wherever one looks.
    rows = [
        int(row) for row in re.findall(rf'class="mark" data-row="(\d+)" x="{LEFT + LANE // 2 + LANE}"', text)
    ]
    assert max(later - earlier for earlier, later in pairwise(rows)) <= 2 * MARKED_EVERY


def test_messages_in_flight_at_the_end_are_not_shown_as_lost() -> None:
    fates = {"lost": Message(1.0, "a", "b", "Fetch", [], False)}
    fates["underway"] = replace(fates["lost"], in_flight=True)
    fates["arrived"] = replace(fates["lost"], arrived_ms=3.0)
    entries = {
        fate: Entry(1.0, "message", "node 1", "Fetch", [], message, "node 2")
        for fate, message in fates.items()
    }
    assert [str(entry).split("[")[1] for entry in entries.values()] == [
        "never arrives]", "in flight at the end]", "arrives after 2.0 ms]",
    ]  # fmt: skip
    assert [entry.as_json()["is_under_way"] for entry in entries.values()] == [False, True, False]
    text = page("", [], ["clients", "node 1", "node 2"], list(entries.values()))
    assert re.findall(r'class="entry message ?(\w*)"', text) == ["lost", "underway", ""]
    assert text.count("<polygon") == 1, "an arrowhead for what has arrived"


def test_run_that_ends_early_leaves_messages_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(listeners: CommitListeners, high_watermark: int) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(CommitListeners, "committed", broken)
    timeline = Timeline()
    assert not Simulation(SEED, timeline=timeline).run().ok
    assert "[in flight at the end]" in "\n".join(map(str, timeline.entries))


def test_page_omits_the_oldest_entries_and_shows_their_number() -> None:
    entries = [Entry(float(number), "client", "clients", f"entry {number}") for number in range(MAX_ROWS + 5)]
    text = page("long", [], ["clients", "node 1"], entries)
    assert "the 5 before them are not shown" in text
    assert "entry 4<" not in text
    assert "entry 5<" in text
    text = page("short", [], ["clients", "node 1"], entries, (10.0, 12.0))
    assert "3 entries; the 10 before them are not shown" in text


def test_omitted_fault_does_not_change_the_times_of_others() -> None:
    options = draw_options(SEED, "swarm")
    every = simulate(SEED, options).injected
    assert len(every) > 2
    without = simulate(SEED, replace(options, only_faults=tuple(n for n, _, _ in every[1:]))).injected
    assert without[0] == every[1]
    assert every[0] not in without


def test_failing_run_shrinks_to_the_same_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(election, "stale_log_rejection_reason", lambda replica, request: None)
    broken = next(report for seed in range(22, 400) if not (report := Simulation(seed).run()).ok)
    runs: list[SimulationOptions] = []

    def counted(options: SimulationOptions) -> Report:
        runs.append(options)
        return simulate(broken.seed, options)

    shorter = shrink(broken, counted)
    assert shorter.violations[0].invariant == broken.violations[0].invariant
    assert len(shorter.injected) < len(broken.injected) or not shorter.injected
    assert len(runs) <= MAX_RUNS
    assert simulate(broken.seed, shorter.options).trace_hash == shorter.trace_hash
    assert shrink(broken, counted, lambda: False) is broken


def test_command_line_reproduces_a_shrunk_run(capsys: pytest.CaptureFixture[str]) -> None:
    options = replace(draw_options(SEED, "swarm"), only_faults=(1,), safety_ms=2000.0)
    report = simulate(SEED, options)
    line = report.reproduce
    assert line == f"quorumd simulate --seed {SEED} --only-faults 1 --safety-duration 2000.0ms"
    assert run([*line.split()[1:], "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["trace_hash"] == report.trace_hash


def test_explain_on_the_command_line(
    capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    html = tmp_path_factory.mktemp("page") / "seed.html"
    assert run(["simulate", "--seed", str(SEED), "--explain", "--to", "500ms", "--html", str(html)]) == 0
    out = capsys.readouterr().out
    assert "starts, incarnation 1" in out
    assert f"seed {SEED}: ok" in out
    assert html.read_text().startswith("<!doctype html>")
    assert run(["simulate", "--seed", str(SEED), "--explain", "--output", "json", "--to", "500ms"]) == 0
    assert json.loads(capsys.readouterr().out)["timeline"]
    assert run(["simulate", "--seeds", "2", "--explain"]) == 2
    assert "cannot be combined" in capsys.readouterr().err
    assert run(["simulate", "--seed", "1", "--only-faults", "x"]) == 2
    assert "'x'" in capsys.readouterr().err
