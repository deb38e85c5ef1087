"""The arithmetic of the benchmark's report, and the bytes of the etcd Put request."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from scripts.bench.etcd import put_request
from scripts.bench.summary import Latency, Level, Report, Run


def run(writes_per_second: float) -> Run:
    return Run(writes_per_second, Latency(10, 1.0, 2.0), 1)


def report(level: Level, mib: float = 50.0, start: float = 1.0) -> Report:
    return Report({}, "compiled", Latency(1, 0.1, 0.2), [level], {"quorumd-0": mib}, [start])


def test_percentiles_are_of_the_sorted_samples() -> None:
    samples = [float(n) for n in range(100, 0, -1)]
    assert Latency.of(samples) == Latency(100, 50.0, 99.0)
    assert Latency.of([3.0]) == Latency(1, 3.0, 3.0)
    assert Latency.of([]) == Latency(0, 0.0, 0.0)


def test_ratio_is_of_neighbouring_rounds() -> None:
    level = Level(64, etcd=[run(100), run(1000), run(10)], quorumd=[run(300), run(1000), run(50)])
    assert level.ratios == [3.0, 1.0, 5.0]
    assert level.as_json()["ratio"] == {"median": 3.0, "min": 1.0, "max": 5.0}


@pytest.mark.parametrize(
    ("in_flight", "ratio", "is_missed"), [(1, 1.1, True), (1, 1.3, False), (16, 0.5, False)]
)
def test_missed_ratios_are_reported(in_flight: int, ratio: float, is_missed: bool) -> None:
    missed = report(Level(in_flight, [run(100)], [run(100 * ratio)])).missed()
    assert bool(missed) is is_missed
    assert all(str(in_flight) in sentence for sentence in missed)


def test_memory_and_cold_start_have_targets() -> None:
    level = Level(16, [run(1)], [run(1)])
    assert report(level).missed() == []
    assert "61.0 MiB" in report(level, mib=61.0).missed()[0]
    assert "2.10 s" in report(level, start=2.1).missed()[0]


def test_json_holds_every_round(tmp_path: Path) -> None:
    report(Level(1, [run(100), run(200)], [run(150), run(300)])).write_json(
        tmp_path / "build" / "commit.json"
    )
    stored = json.loads((tmp_path / "build" / "commit.json").read_text())
    (level,) = stored["levels"]
    assert level["quorumd"]["writes_per_second"] == 225
    assert [entry["writes_per_second"] for entry in level["etcd"]["rounds"]] == [100, 200]
    assert stored["missed"] == []
    assert stored["quorumd"] == "compiled"


def test_table_names_the_measured_quorumd() -> None:
    console = Console(file=io.StringIO(), width=110)
    report(Level(1, [run(100)], [run(150)])).print(console)
    assert "quorumd: compiled\n" in console.file.getvalue()  # type: ignore[attr-defined] # it is a StringIO


def test_put_is_one_uncompressed_grpc_message_of_etcds_put_request() -> None:
    message = b"\x0a\x01k\x12\xc8\x01" + b"v" * 200
    assert put_request(b"k", b"v" * 200) == b"\0\0\0\0" + bytes([len(message)]) + message
