"""Tables describe themselves: each column has a comment, also in Spark's DDL."""

from __future__ import annotations

import pytest

from quorumd.pipeline.tables import schemas
from quorumd.pipeline.tables.meanings import MEANINGS
from quorumd.pipeline.tables.schemas import Column, Table

TABLES = [value for value in vars(schemas).values() if isinstance(value, Table)]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_has_a_comment(table: Table) -> None:
    assert all(column.comment for column in table.columns)


def test_every_meaning_is_that_of_a_column() -> None:
    assert set(MEANINGS) == {column.name for table in TABLES for column in table.columns if not column.doc}


def test_comments_are_quoted() -> None:
    table = Table("t", "", (Column("a", "INT", "the broker's \\ id"), Column("offset", "BIGINT")))
    assert table.ddl == (
        r"`a` INT COMMENT 'the broker\'s \\ id', `offset` BIGINT COMMENT 'offset of the record'"
    )
