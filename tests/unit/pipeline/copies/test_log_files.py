from __future__ import annotations

from pathlib import Path

import pytest

from quorumd.pipeline.copies.log_files import read_directories


def test_files_are_found_in_data_and_partition_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers of a cluster have other working directories."""
    directory = tmp_path / "node" / "__cluster_metadata-0"
    directory.mkdir(parents=True)
    names = "00000000000000000000.log", "00000000000000000007-0000000001.checkpoint"
    for name in names:
        (directory / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    (found,) = read_directories({1: "node"})
    assert [file.path for file in (*found.segments, *found.snapshots)] == [str(directory / n) for n in names]


def test_file_deleted_during_listing_is_skipped(tmp_path: Path) -> None:
    (tmp_path / f"{7:020d}.log").write_bytes(b"some")
    for name in (f"{0:020d}.log", f"{5:020d}-{1:010d}.checkpoint"):
        # Deleted between being listed and being opened.
        (tmp_path / name).symlink_to(tmp_path / "deleted")
    (found,) = read_directories({1: str(tmp_path)})
    assert [(file.base_offset, file.size) for file in found.segments] == [(7, 4)]
    assert found.snapshots == ()
