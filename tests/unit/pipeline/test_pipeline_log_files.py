from __future__ import annotations

from pathlib import Path

import pytest

from quorumd.pipeline.log_files import read_folders


def test_files_are_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of a cluster work in folders of their own."""
    folder = tmp_path / "node" / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    names = "00000000000000000000.log", "00000000000000000007-0000000001.checkpoint"
    for name in names:
        (folder / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    (found,) = read_folders({1: "node"})
    assert [file.path for file in (*found.segments, *found.snapshots)] == [str(folder / n) for n in names]
