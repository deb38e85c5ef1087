"""The report of the decoder's benchmark, and a run with a small log."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from scripts.bench import pipeline_decode
from scripts.bench.pipeline_decode import DecodeReport, Rate, ShapeFigures, measure_decode


def report(decode: float = 3.2e6, scan: float = 2.2e9, dump: float = 1e5) -> DecodeReport:
    figures = ShapeFigures(
        32, Rate(9e7, 5e9), Rate(4e7, scan), Rate(decode, 2e8), Rate(5e6, 3e8), dump, 4e5, 1.9
    )
    return DecodeReport("compiled", {"mix": figures})


@pytest.mark.parametrize(
    ("reported", "what"),
    [
        (report(decode=2.9e6), "decoded"),
        (report(scan=1.9e9), "scanned"),
        (report(dump=4e5), "`log dump`"),
    ],
)
def test_missed_targets_are_reported(reported: DecodeReport, what: str) -> None:
    (sentence,) = reported.missed()
    assert what in sentence
    assert reported.as_json()["missed"] == [sentence]


def test_figures_are_shown() -> None:
    out = io.StringIO()
    report().print(Console(file=out, width=110))
    assert report().missed() == []
    for shown in (
        "5.00",
        "2.20",
        "5.00",
        "3.20",
        "records /",
        "0.10",
        "32.0x",
        "1.90x",
        "every target reached",
    ):
        assert shown in out.getvalue()


def test_small_run_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_decode, "SHAPES", {"mix": 32})
    reported = measure_decode(tmp_path / "logs", "here", [].append, records=3_000, dumped=2_000, repeat=1)
    figures = reported.shapes["mix"]
    assert figures.headers.records > 0
    assert figures.decode.bytes > 0
    assert not (tmp_path / "logs").exists()
