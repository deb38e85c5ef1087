"""Histories are not built from damaged copies of a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorumd.errors import InputIncomplete
from quorumd.pipeline.history.copies import describe_input, without_damaged
from quorumd.pipeline.history.seed import _snapshot_of_directories
from tests.support.history.logs import damage_middle, history, write_segment, write_snapshot_of
from tests.support.text import shows

LOG, IMAGE = history(5, 120)
END = LOG[-1].offset + 1


def write_copies(directory: Path, *damaged: int) -> dict[str, str]:
    """Copies of nodes 1, 2 and 3, of which the last is shorter."""
    for node, length in {1: 120, 2: 120, 3: 100}.items():
        write_segment(directory / str(node), LOG[:length])
    for node in damaged:
        damage_middle(directory / str(node))
    return {"path": ",".join(f"{node}={directory / str(node)}" for node in (1, 2, 3)), "onCorrupt": "fail"}


def test_damaged_copy_is_skipped_and_reported_with_place(tmp_path: Path) -> None:
    source, reported = write_copies(tmp_path, 1), list[str]()
    assert "node 1" in describe_input(source)
    found = without_damaged(source, 0, reported.append)
    assert found == {"path": f"2={tmp_path / '2'},3={tmp_path / '3'}", "onCorrupt": "fail"}
    assert "node 2" in describe_input(found)
    (text,) = reported
    assert shows(text, "node 1 is damaged", "node 2", f"offset {END}", f"{tmp_path}/1/", "position ")


def test_next_best_copy_may_have_less(tmp_path: Path) -> None:
    source, reported = write_copies(tmp_path, 1, 2), list[str]()
    found = without_damaged(source, 0, reported.append)
    assert found is not None
    assert found["path"] == f"3={tmp_path / '3'}"
    for node, text in zip((1, 2), reported, strict=True):
        assert shows(text, f"node {node} is damaged", "node 3", f"offset {LOG[99].offset + 1}:")


def test_damage_below_known_offset_is_ignored(tmp_path: Path) -> None:
    reported = list[str]()
    assert without_damaged(write_copies(tmp_path, 1, 2, 3), LOG[90].offset, reported.append) is None
    assert not reported


def test_damage_of_all_copies_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputIncomplete, match="all copies") as raised:
        without_damaged(write_copies(tmp_path, 1, 2, 3), 0, print)
    assert all(f"{tmp_path}/{node}/" in str(raised.value) for node in (1, 2, 3))


def test_sound_or_only_copy_is_kept(tmp_path: Path) -> None:
    source = write_copies(tmp_path, 1)
    alone = source["path"].partition(",")[0]
    assert without_damaged({"path": alone}, 0, print) is None
    assert without_damaged({"path": source["path"].partition(",")[2]}, 0, print) is None
    assert without_damaged({"bootstrap": "127.0.0.1:9192"}, 0, print) is None
    assert (
        describe_input({"path": alone})
        == describe_input({"bootstrap": "127.0.0.1:9192"})
        == "reading the log"
    )


def test_damaged_snapshot_is_skipped_and_reported(tmp_path: Path) -> None:
    _, image = history(5, 60)
    for node in (1, 2):
        directory = write_segment(tmp_path / str(node), LOG[60:])
        write_snapshot_of(directory, image, LOG[59])
    path, reported = f"1={tmp_path / '1'},2={tmp_path / '2'}", list[str]()
    end = LOG[59].offset + 1
    assert _snapshot_of_directories(path, 0, reported.append) == (f"1={tmp_path / '1'}", end)
    damage_middle(tmp_path / "1", ".checkpoint")
    assert not reported
    assert _snapshot_of_directories(path, 0, reported.append) == (f"2={tmp_path / '2'}", end)
    assert len(reported) == 1
    damage_middle(tmp_path / "2", ".checkpoint")
    with pytest.raises(InputIncomplete, match=r"snapshots .*damaged"):
        _snapshot_of_directories(path, 0, reported.append)
