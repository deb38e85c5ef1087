"""Every record of a growing log is in Parquet once, wherever the stream is killed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.pipeline.stream_kills.job import EACH, FILES
from tests.pipeline.stream_kills.lanes import Kill, Lane


def test_each_record_appears_once_after_six_kills(tmp_path: Path) -> None:
    """Each kill costs a start of Java; `make stream-kills` does a hundred."""
    lanes = [
        Lane(tmp_path / FILES, FILES, [Kill("offsets", 0), Kill("part", 1), Kill("sink", 0)]),
        Lane(tmp_path / EACH, EACH, [Kill("written", 1), Kill("renamed", 0), Kill("commits", 0)]),
    ]
    with ThreadPoolExecutor(len(lanes)) as threads:
        list(threads.map(Lane.run, lanes))
    for lane in lanes:
        lane.check()
    assert [lane.killed for lane in lanes] == [3, 3]
