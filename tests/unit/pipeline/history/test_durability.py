"""A power failure at any moment leaves a published history with all of its files complete."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest

from quorumd.pipeline.history import merging, writer
from quorumd.pipeline.history.jobs import Done, EventsJob, FoldJob, run_jobs
from quorumd.pipeline.history.tables import MANIFEST, Manifest, only_writer, remove_leftovers, write_manifest
from quorumd.pipeline.history.writer import HistoryWriter
from tests.support.history.content import content
from tests.support.history.logs import history
from tests.support.history.writing import add, write_seed
from tests.support.log.power_failure import flushed_disk


def test_listed_files_are_flushed_before_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rename may reach the disk at any moment; files are removed only after it."""
    directory, numbers, removed = tmp_path / "history", count(), writer.remove_obsolete

    def publish(directory: Path, manifest: Manifest) -> None:
        left = disk.leave(directory, tmp_path / f"left-{next(numbers)}")
        for name in sorted(manifest.named):
            assert (left / name).exists(), f"{name} has no name in what is left"
            assert (left / name).read_bytes() == (directory / name).read_bytes(), f"{name} is torn"
        write_manifest(directory, manifest)

    def remove(directory: Path, paths: list[str]) -> None:
        assert content(disk.leave(directory, tmp_path / f"left-{next(numbers)}")) == content(directory)
        removed(directory, paths)

    monkeypatch.setattr(writer, "write_manifest", publish)
    monkeypatch.setattr(writer, "remove_obsolete", remove)
    monkeypatch.setattr(merging, "MANY", 4)
    log, image = history(4, 120)
    with flushed_disk() as disk, only_writer(directory):
        made = HistoryWriter(directory, Manifest())
        for start in range(0, 100, 20):
            add(made, log[start : start + 20])
        assert any("merged" in name for name in made.manifest.named)
        write_seed(directory, image, log[-1])


def test_files_of_worker_are_flushed_when_it_is_done(tmp_path: Path) -> None:
    """The driver may be on another machine, and cannot flush files of a worker."""
    log, _ = history(4, 120)

    def run(jobs: Sequence[EventsJob | FoldJob]) -> list[Done]:
        with flushed_disk() as disk:
            done = run_jobs(jobs)
            for name in filter(None, (name for each in done for name in (each.path, each.current))):
                assert disk.has(tmp_path / name)
        return done

    add(HistoryWriter(tmp_path, Manifest()), log, run=run)


def test_nested_history_directory_is_flushed(tmp_path: Path) -> None:
    with flushed_disk() as disk, only_writer(tmp_path / "of" / "one"):
        assert (disk.leave(tmp_path, tmp_path / "left") / "of" / "one").exists()


def test_manifest_of_killed_run_is_removed(tmp_path: Path) -> None:
    write_manifest(tmp_path, Manifest())
    (tmp_path / f".{MANIFEST}.0123").touch()
    remove_leftovers(tmp_path, Manifest())
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST]
