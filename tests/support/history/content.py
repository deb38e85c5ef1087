"""The content of a history's directory, for comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from quorumd.pipeline.history.tables import Manifest, read_files, read_manifest
from quorumd.pipeline.tables.schemas import HISTORY_TABLES


def content(directory: Path) -> dict[str, list[Any]]:
    """Return all rows of all tables, independent of the files they are in."""
    manifest = read_manifest(directory) or Manifest()
    found: dict[str, list[Any]] = {}
    for table in HISTORY_TABLES:
        rows = read_files(directory, manifest.paths(table), table).to_pylist()
        found[table] = sorted(rows, key=repr)
    found["manifest"] = [
        manifest.begin,
        manifest.end,
        manifest.end_epoch,
        manifest.cluster_id,
        manifest.min_isr,
    ]
    return found


def by(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: tuple(row[name] for name in names))
