"""Rows of the pipeline in the four formats of --output."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from quorumd.cli.pipeline.output import print_rows

ROWS = [
    {"topic": "a,b", "id": bytes(16), "ts": datetime(2026, 1, 2, 3, 4, 5, 6000, UTC), "isr": [1, 2], "ok": True},
    {"topic": None, "id": b"\x01\xff", "ts": None, "isr": [], "ok": False},
]  # fmt: skip


def test_table_columns_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, "text")
    assert capsys.readouterr().out.splitlines() == [
        "Topic  Id                      Ts                        Isr    Ok",
        "a,b    AAAAAAAAAAAAAAAAAAAAAA  2026-01-02T03:04:05.006Z  [1,2]  yes",
        "-      01ff                    -                         []     no",
    ]


def test_csv_quotes_cells_and_nulls_are_empty(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, "csv")
    assert capsys.readouterr().out.splitlines() == [
        "topic,id,ts,isr,ok",
        '"a,b",AAAAAAAAAAAAAAAAAAAAAA,2026-01-02T03:04:05.006Z,"[1,2]",true',
        ",01ff,,[],false",
    ]


def test_json_is_one_array_and_jsonl_one_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, "json")
    array = json.loads(capsys.readouterr().out)
    print_rows(ROWS, "jsonl")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert array == lines
    assert lines[1] == {"topic": None, "id": "01ff", "ts": None, "isr": [], "ok": False}


@pytest.mark.parametrize(
    ("output", "text"), [("text", "(no rows)\n"), ("json", "[]\n"), ("jsonl", ""), ("csv", "a,b\n")]
)
def test_no_rows_are_reported(output: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([], output, ["a", "b"])
    assert capsys.readouterr().out == text


def test_arrow_table_prints_like_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(ROWS, "jsonl")
    expected = capsys.readouterr().out
    print_rows(pa.Table.from_pylist(ROWS), "jsonl")
    assert capsys.readouterr().out == expected


def test_numbers_are_right_aligned_and_rounded(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"n": 1000, "s": 1.5}, {"n": 7, "s": 2.0}], "text")
    assert capsys.readouterr().out.splitlines() == ["   N    S", "1000  1.5", "   7    2"]
