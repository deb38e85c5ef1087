"""Verdicts are saved, samples are stable, and listed equivalents apply to the present code and have reasons."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.mutation.judge import KILLED, SURVIVED, UNCHANGED, Verdict, path_of
from tests.mutation.operators import Mutation, mutations
from tests.mutation.results import Equivalent, Results, load_equivalents, sample, summary

EXAMPLE = Mutation("quorumd.raft.a", "quorumd.raft.a.f", "call omitted", "g()", "", 1, (3, 3), "digest")
OTHERS = [replace(EXAMPLE, occurrence=number) for number in range(1, 200)]


def test_results_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "build" / "results.jsonl"
    results = Results(path)
    assert results.get(EXAMPLE) is None
    results.add(EXAMPLE, Verdict(SURVIVED, "", 2.0))
    results.add(EXAMPLE, Verdict(KILLED, "seed 3", 1.5))
    assert Results(path).get(EXAMPLE) == Verdict(KILLED, "seed 3", 1.5)
    assert Results(path).get(replace(EXAMPLE, function_digest="changed")) is None


def test_sample_keeps_its_members_when_others_change() -> None:
    chosen = sample(OTHERS, 50, 1)
    assert len(chosen) == 50 == len(set(chosen))
    assert sample(reversed(OTHERS), 50, 1) == chosen != sample(OTHERS, 50, 2)
    assert set(sample(OTHERS[:-20], 50, 1)) >= set(chosen) - set(OTHERS[-20:])


def test_summary_counts_and_names_survivors() -> None:
    log = replace(EXAMPLE, module="quorumd.log.a", place="quorumd.log.a.f", occurrence=2)
    verdicts = {
        OTHERS[0]: Verdict(KILLED, "tests/unit/raft/test_a.py::test"),
        OTHERS[1]: Verdict(KILLED, "seed 3"),
        OTHERS[2]: Verdict(UNCHANGED),
        OTHERS[3]: Verdict(SURVIVED),
        log: Verdict(SURVIVED),
    }
    equivalents = [Equivalent("quorumd.raft.a.f", "g()", "", 4, "")]
    assert list(summary([*OTHERS, log], verdicts, equivalents))[2:] == [
        "| log | 1 | 0 | 0 | 0 | 1 |",
        "| raft | 4 | 1 | 1 | 2 | 0 |",
        "| all | 5 | 1 | 1 | 2 | 1 |",
        "\n1 of 3 mutations that are not equivalent survived: 33.3%",
        "quorumd.log.a.f:3: 'g()' -> '' (occurrence 2)",
    ]


def test_listed_equivalents_apply_to_the_present_code_and_have_reasons() -> None:
    listed = load_equivalents()
    assert len(set(listed)) == len(listed)
    for each in listed:
        module = each.place
        while not path_of(module).is_file():
            module = module.rpartition(".")[0]
        found = mutations(module, path_of(module).read_text(encoding="utf-8"))
        assert any(each.covers(mutation) for mutation in found), each
        assert each.reason
