"""Each mutant applies to the present code and changes it, compiles, and is in the table."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import tests.mutants.__main__ as command
from tests.mutants import replay
from tests.mutants.catalogue import DoesNotApply, Edit, Mutant, load_mutants
from tests.mutants.hunt import Catch, seeds_that_reach
from tests.mutants.planting import plant
from tests.mutants.replay import RecordedHunt, part, recorded_hunts, sample
from tests.mutants.table import (
    BEGIN,
    END,
    HEADER,
    NOT_CAUGHT,
    NOT_HUNTED,
    README,
    SWARM,
    HuntResult,
    Results,
    load_results,
    replace_table,
    row,
    save_results,
    summary,
)
from tests.mutation.covered_lines import ROOT, digest
from tests.mutation.reached_seeds import ReachedSeeds

MUTANTS = load_mutants()
EXAMPLE = Mutant("example", "nothing", "nowhere", (Edit("quorumd.ids.Id", "1", "2"),))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_applies_compiles_and_changes_the_code(mutant: Mutant) -> None:
    for module, file in mutant.modules.items():
        source = file.read_text()
        planted = mutant.planted(module, source)
        assert ast.dump(planted) != ast.dump(ast.parse(source))
        compile(planted, str(file), "exec")


def test_no_two_mutants_have_the_same_edits() -> None:
    found: dict[tuple[object, ...], str] = {}
    for mutant in MUTANTS:
        edits = tuple(
            (edit.place, *edit.old.split(), "->", *edit.new.split(), edit.occurrence) for edit in mutant.edits
        )
        assert found.setdefault(edits, mutant.name) == mutant.name


def test_code_that_has_changed_is_reported_with_mutant_and_place() -> None:
    for source in ("class Id: x = 2", "class Id: x = 1 + 1", "class Other: x = 1"):
        with pytest.raises(DoesNotApply, match=r"mutant example: quorumd\.ids\.Id: "):
            EXAMPLE.planted("quorumd.ids", source)
    assert ast.unparse(EXAMPLE.planted("quorumd.ids", "class Id: x = 1")) == "class Id:\n    x = 2"
    assert ast.unparse(EXAMPLE.planted("quorumd.errors", "class Id: x = 1")) == "class Id:\n    x = 1"
    with pytest.raises(DoesNotApply, match="no module"):
        _ = Edit("quorumd.gone.Id", "1", "2").module


def test_planting_after_an_import_is_an_error() -> None:
    import quorumd.ids  # noqa: F401 - only that it is imported matters

    with pytest.raises(RuntimeError, match="example"):
        plant(EXAMPLE)


def test_names_are_unique_and_nothing_is_left_empty() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 35
    assert all(mutant.breaks and mutant.source and mutant.edits for mutant in MUTANTS)


def test_table_is_the_one_of_the_mutants_and_their_recorded_hunts() -> None:
    readme, results = README.read_text(), load_results()
    assert replace_table(readme, MUTANTS, results) == readme, "run python -m tests.mutants --table-only"
    assert NOT_CAUGHT not in readme
    assert results.keys() <= {mutant.name for mutant in MUTANTS}


def test_row_shows_the_invariant_and_the_seeds() -> None:
    start = "| example | nothing | nowhere |"
    assert row(EXAMPLE, {SWARM: HuntResult(7, "log matching")}) == f"{start} log matching | 7 |  |\n"
    assert row(EXAMPLE, {SWARM: HuntResult(2000, "")}) == f"{start} {NOT_CAUGHT} | > 2000 |  |\n"
    assert row(EXAMPLE, {}) == f"{start} {NOT_HUNTED} |  |  |\n"


def test_row_has_a_column_for_the_hunt_in_the_own_profile() -> None:
    mutant = replace(EXAMPLE, profile="disk")
    in_profile = {"disk": HuntResult(7, "log matching"), "reads": HuntResult(1, "votes")}
    assert row(mutant, in_profile).endswith("| log matching |  | 7 (disk) |\n")
    assert row(mutant, in_profile | {SWARM: HuntResult(9, "votes")}).endswith("| votes | 9 | 7 (disk) |\n")
    assert row(mutant, {"reads": HuntResult(7, "log matching")}).endswith(f"| {NOT_HUNTED} |  | (disk) |\n")


def test_results_are_kept_for_the_mutants_that_there_are(tmp_path: Path) -> None:
    hunts = {SWARM: HuntResult(7, "log matching"), "disk": HuntResult(3, "votes")}
    results = {"example": hunts, "gone": {SWARM: HuntResult(1, "log matching")}}
    save_results([EXAMPLE, replace(EXAMPLE, name="new")], results, tmp_path / "hunts.json")
    assert load_results(tmp_path / "hunts.json") == {"example": hunts}


VIOLATED = HuntResult(7, "log matching", {3: "votes"})


def test_seeds_that_fail_without_the_mutant_are_kept_and_reported(tmp_path: Path) -> None:
    save_results([EXAMPLE], {"example": {SWARM: VIOLATED}}, tmp_path / "hunts.json")
    results = load_results(tmp_path / "hunts.json")
    assert results == {"example": {SWARM: VIOLATED}}
    assert "Violated without a bug: 'votes' by seed 3 of swarm." in summary([EXAMPLE], results)


def test_hunt_continues_after_a_seed_that_fails_without_the_mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    def hunt(mutant: Mutant | None, profile: str, seeds: Sequence[int], progress: object) -> Catch | None:
        fails = {3: "votes"} if mutant is None else {3: "votes", 7: "log matching"}
        return next((Catch(seed, fails[seed], "") for seed in seeds if seed in fails), None)

    monkeypatch.setattr(command, "hunt", hunt)
    assert command.hunt_one(EXAMPLE, SWARM, range(1, 9), 8) == VIOLATED
    assert command.hunt_one(EXAMPLE, SWARM, range(1, 6), 5) == HuntResult(5, "", {3: "votes"})


def test_seed_that_fails_without_the_mutant_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"{BEGIN}\n{END}")
    monkeypatch.setattr(command, "README", readme)
    monkeypatch.setattr(command, "load_mutants", lambda: [replace(EXAMPLE, profile="disk")])
    monkeypatch.setattr(command, "load_results", dict)
    monkeypatch.setattr(command, "save_results", lambda mutants, results: None)
    monkeypatch.setattr(command, "hunt_one", lambda *arguments: VIOLATED)
    result = CliRunner().invoke(command.main, ["--profiles"])
    assert result.exit_code == 1
    assert "violated without the mutant as well: 'votes' by seed 3 of disk" in result.stdout
    assert "Violated without a bug: 'votes' by seed 3 of disk." in readme.read_text()


def test_summary_counts_the_hunts() -> None:
    other, new = replace(EXAMPLE, name="other", profile="disk"), replace(EXAMPLE, name="new")
    results = {
        "example": {SWARM: HuntResult(7, "votes")},
        "other": {SWARM: HuntResult(9, ""), "disk": HuntResult(2, "votes")},
    }
    assert summary([EXAMPLE, other, new], results) == (
        "Of 3 bugs 2 were caught: 1 by a seed of plain swarm (median 7, largest 7), 1 by a seed of their profile. "
        "1 have no recorded hunt.\n"
    )


def test_seeds_that_do_not_reach_a_changed_statement_are_left_out() -> None:
    mutant = replace(EXAMPLE, edits=(Edit("quorumd.raft.voters.majority", "count // 2 + 1", "count // 2"),))
    (path,) = mutant.modules.values()
    lines = mutant.edits[0].lines_before(ast.parse(path.read_text()))
    assert lines is not None
    name, line = path.relative_to(ROOT).as_posix(), str(lines[0])
    reached = ReachedSeeds(0, {1: 0.5, 2: 0.5, 3: 0.5}, {name: {line: [2]}}, {name: digest(path)})
    assert seeds_that_reach(mutant, range(1, 6), reached) == [2, 4, 5]
    assert seeds_that_reach(mutant, range(1, 6), replace(reached, digests={})) == [1, 2, 3, 4, 5]


def test_table_needs_its_markers() -> None:
    readme = f"before\n{BEGIN}\n\n{summary([EXAMPLE], {})}\n{HEADER}| gone | x |\n\n{END}\nafter\n"
    assert replace_table(readme, [EXAMPLE], {}) == readme.replace("| gone | x |\n", row(EXAMPLE, {}))
    with pytest.raises(ValueError):
        replace_table("no markers", [], {})


def test_only_hunts_that_caught_a_mutant_are_replayed() -> None:
    caught, escaped = HuntResult(7, "votes"), HuntResult(60, "")
    results = {"example": {SWARM: escaped, "disk": caught}, "gone": {SWARM: caught}}
    assert recorded_hunts([EXAMPLE], results) == [RecordedHunt(EXAMPLE, "disk", caught)]


def test_replayed_hunts_depend_on_the_day() -> None:
    hunts = recorded_hunts(MUTANTS, load_results())
    first = sample(hunts, 10, "2026-11-28")
    assert len(first) == 10
    assert first == sample(hunts, 10, "2026-11-28")
    assert first != sample(hunts, 10, "2026-11-29")
    assert sorted(found.mutant.name for found in sample(hunts[:3], 10, "2026-11-28")) == sorted(
        found.mutant.name for found in hunts[:3]
    )


def test_parts_together_are_all_hunts_by_name() -> None:
    hunts = recorded_hunts(MUTANTS, load_results())
    parts = [part(hunts, number, 4) for number in (1, 2, 3, 4)]
    names = [(found.mutant.name, found.profile) for each in parts for found in each]
    assert names == sorted((found.mutant.name, found.profile) for found in hunts)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("value", ["0/2", "3/2", "1", "a/b", "1/2/3"])
def test_option_of_a_part_needs_a_number_and_a_count(value: str) -> None:
    result = CliRunner().invoke(command.main, ["--part", value])
    assert result.exit_code == 2
    assert repr(value) in result.output


def test_only_the_hunts_of_a_part_are_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    replayed: list[str] = []
    result = HuntResult(2, "votes")

    def violated(found: RecordedHunt) -> str:
        replayed.append(found.mutant.name)
        return "votes"

    monkeypatch.setattr(command, "load_mutants", lambda: [replace(EXAMPLE, name=name) for name in "dbca"])
    monkeypatch.setattr(command, "load_results", lambda: {name: {SWARM: result} for name in "abcd"})
    monkeypatch.setattr(RecordedHunt, "violated", violated)
    assert CliRunner().invoke(command.main, ["--part", "2/2", "--jobs", "1"]).exit_code == 0
    assert sorted(replayed) == ["c", "d"]


@pytest.mark.parametrize(("profile", "code"), [("access", 0), ("disk", 1)])
def test_replay_reports_seeds_that_catch_their_mutant_no_more(
    profile: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No ACL is set in the profile "disk"."""
    hunts = {
        "denials-are-ignored": {profile: HuntResult(2, "clients may do what administrators have granted")}
    }
    monkeypatch.setattr(command, "load_results", lambda: hunts)
    result = CliRunner().invoke(command.main, ["--replay", "1", "denials-are-ignored"])
    assert result.exit_code == code
    assert ("denials-are-ignored: " in result.output) == bool(code)


@pytest.mark.parametrize(
    ("planted", "unplanted", "invariant"),
    [
        ("votes", "", "votes"),
        ("votes", "votes", "votes"),
        ("log matching", "", "log matching"),
        ("log matching", "log matching", ""),
        ("", "", ""),
    ],
)
def test_replayed_hunt_violates_the_same_invariant_or_holds_without_its_mutant(
    planted: str, unplanted: str, invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hunt(mutant: Mutant | None, profile: str, seeds: Sequence[int], progress: object) -> Catch | None:
        assert (profile, list(seeds)) == ("disk", [7])
        violated = planted if mutant is not None else unplanted
        return Catch(7, violated, "") if violated else None

    monkeypatch.setattr(replay, "hunt", hunt)
    assert RecordedHunt(EXAMPLE, "disk", HuntResult(7, "votes")).violated() == invariant


@pytest.mark.parametrize(
    ("violated", "output", "recorded"),
    [
        ("votes", "", {"disk": HuntResult(7, "votes")}),
        (
            "log matching",
            "violates 'log matching' instead of 'votes'",
            {"disk": HuntResult(7, "log matching")},
        ),
        ("", "not caught any more by seed 7 of disk", {}),
    ],
)
def test_replay_corrects_the_record_only_on_request(
    violated: str,
    output: str,
    recorded: dict[str, HuntResult],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    readme, before = tmp_path / "README.md", {"disk": HuntResult(7, "votes")}
    readme.write_text(f"{BEGIN}\n{END}")
    written: list[Results] = []
    monkeypatch.setattr(command, "README", readme)
    monkeypatch.setattr(command, "load_mutants", lambda: [replace(EXAMPLE, profile="disk")])
    monkeypatch.setattr(command, "load_results", lambda: {"example": dict(before)})
    monkeypatch.setattr(command, "save_results", lambda mutants, results: written.append(results))
    monkeypatch.setattr(RecordedHunt, "violated", lambda found: violated)
    result = CliRunner().invoke(command.main, ["--part", "1/1"])
    assert (result.exit_code, written) == (int(not violated), [])
    assert output in result.output
    CliRunner().invoke(command.main, ["--part", "1/1", "--correct"])
    assert written == [{"example": recorded}]
    assert (NOT_HUNTED in readme.read_text()) == (not violated)
