"""The mutants fit the code: each patch applies, compiles and changes something, and is in the table."""

from __future__ import annotations

import pytest

from tests.mutants.catalogue import DoesNotApply, Edit, Mutant, load_mutants
from tests.mutants.hunt import Catch
from tests.mutants.planting import plant
from tests.mutants.table import BEGIN, END, NOT_CAUGHT, render, replace_table

MUTANTS = load_mutants()
EXAMPLE = Mutant("example", "nothing", "nowhere", (Edit("ids.py", "x = 1", "x = 2"),))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_applies_once_and_compiles(mutant: Mutant) -> None:
    for module, file in mutant.modules.items():
        source = file.read_text()
        patched = mutant.patched(module, source)
        assert compile(patched, str(file), "exec") != compile(source, str(file), "exec")


def test_code_that_moved_away_is_told_with_mutant_and_file() -> None:
    for source in ("y = 1", "x = 1; x = 1"):
        with pytest.raises(DoesNotApply, match=r"mutant example: .* in quorumd/ids\.py"):
            EXAMPLE.patched("quorumd.ids", source)
    assert EXAMPLE.patched("quorumd.ids", "x = 1") == "x = 2"
    assert EXAMPLE.patched("quorumd.errors", "x = 1") == "x = 1"


def test_planting_too_late_is_an_error() -> None:
    import quorumd.ids  # noqa: F401 - only that it is imported matters

    with pytest.raises(RuntimeError, match="example comes too late"):
        plant(EXAMPLE)


def test_names_are_unique_and_nothing_is_left_empty() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 35
    assert all(mutant.breaks and mutant.source and mutant.edits for mutant in MUTANTS)


def test_the_table_says_who_caught_it_and_when() -> None:
    table = render([EXAMPLE, EXAMPLE], [Catch(7, "log matching", "node 1"), None], 2000)
    assert table.splitlines()[2:] == [
        "| example | nothing | nowhere | log matching | 7 |",
        f"| example | nothing | nowhere | {NOT_CAUGHT} | > 2000 |",
    ]


def test_only_what_is_between_the_markers_is_replaced() -> None:
    once = replace_table(f"before\n{BEGIN}\nold\n{END}\nafter\n", "new\n")
    assert once == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert replace_table(once, "new\n") == once
    with pytest.raises(ValueError):
        replace_table("no markers", "new\n")
