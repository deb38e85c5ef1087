"""Each mutant applies to the present code, compiles and changes it, and is in the table."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.catalogue import DoesNotApply, Edit, Mutant, load_mutants
from tests.mutants.hunt import Catch
from tests.mutants.planting import plant
from tests.mutants.table import BEGIN, END, HEADER, NOT_CAUGHT, replace_rows, row

MUTANTS = load_mutants()
README = Path(__file__).resolve().parent.parent / "README.md"
EXAMPLE = Mutant("example", "nothing", "nowhere", (Edit("quorumd.ids.Id", "1", "2"),))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_applies_compiles_and_changes_the_code(mutant: Mutant) -> None:
    for module, file in mutant.modules.items():
        source = file.read_text()
        planted = mutant.planted(module, source)
        assert ast.dump(planted) != ast.dump(ast.parse(source))
        compile(planted, str(file), "exec")


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

    with pytest.raises(RuntimeError, match="mutant example must be planted before"):
        plant(EXAMPLE)


def test_names_are_unique_and_nothing_is_left_empty() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 35
    assert all(mutant.breaks and mutant.source and mutant.edits for mutant in MUTANTS)


def test_the_rows_of_the_table_are_of_mutants_as_they_are_now_and_all_caught() -> None:
    table = README.read_text().partition(BEGIN)[2].partition(END)[0]
    starts = tuple(f"| {mutant.name} | {mutant.breaks} | {mutant.source} | " for mutant in MUTANTS)
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 30
    assert [each for each in rows if not each.startswith(starts)] == []
    assert NOT_CAUGHT not in table


def test_a_row_says_who_caught_it_and_when() -> None:
    caught, escaped = row(EXAMPLE, Catch(7, "log matching", "node 1"), 2000), row(EXAMPLE, None, 2000)
    assert caught == "| example | nothing | nowhere | log matching | 7 |\n"
    assert escaped == f"| example | nothing | nowhere | {NOT_CAUGHT} | > 2000 |\n"


def test_only_the_rows_of_a_run_are_replaced() -> None:
    readme = f"before\n{BEGIN}\n\n{HEADER}| gone | x |\n| b | old |\n| example | old |\n\n{END}\nafter\n"
    other = replace(EXAMPLE, name="b")
    after = replace_rows(readme, [EXAMPLE, other], {"example": "| example | new |\n"})
    assert after == f"before\n{BEGIN}\n\n{HEADER}| example | new |\n| b | old |\n\n{END}\nafter\n"
    assert replace_rows(after, [EXAMPLE, other], {}) == after
    with pytest.raises(ValueError):
        replace_rows("no markers", [], {})
