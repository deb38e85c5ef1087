"""docs/protocol.md agrees with the code."""

from __future__ import annotations

import pytest

from quorumd.protocol.apis import APIS
from quorumd.protocol.messages import COORDINATOR_RECORDS, RECORDS
from scripts.protocol_tables import PAGE, render, tables


def test_page_has_the_generated_tables() -> None:
    page = PAGE.read_text()
    assert render(page) == page


@pytest.mark.parametrize("name", tables())
def test_every_table_is_on_the_page(name: str) -> None:
    assert f"<!-- {name} -->\n| " in PAGE.read_text()


def test_changed_row_is_rewritten() -> None:
    page = PAGE.read_text()
    changed = page.replace("| 52 | Vote | 0 to 2 |", "| 52 | Vote | 0 to 9 |")
    assert changed != page
    assert render(changed) == page


def test_tables_have_a_row_for_every_api_and_record() -> None:
    rows = tables()
    listed = sum(rows[name].count("\n") - 2 for name in ("apis", "broker apis", "private apis"))
    assert listed == len(APIS) + 1, "Fetch is in two tables"
    assert rows["records"].count("\n") - 2 == len(RECORDS)
    records = sum(len(names) for names in COORDINATOR_RECORDS.values())
    assert rows["coordinator records"].count("\n") - 2 == records


def test_private_fields_and_errors_are_listed() -> None:
    assert "| VotersRecord | TargetVoters | 10001 | []TargetVoter |" in tables()["private fields"]
    assert "| 1001 | NOT_FOLLOWER |" in tables()["private errors"]
