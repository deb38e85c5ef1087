"""The targets of the decoder's benchmark; test_bench_short.py runs it."""

from __future__ import annotations

import pytest

from scripts.bench.pipeline_decode import DecodeReport, Rate, ShapeFigures


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
