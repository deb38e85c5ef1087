"""Merges small files of many micro-batches, so that following a log for days does not leave a million files."""

from __future__ import annotations

import re
from pathlib import Path

from quorumd.pipeline.history.tables import path_in, read_files, write_table

SMALL_BYTES = 4 << 20
"""Larger files are not merged."""
MANY = 32
_BUCKET = re.compile(r"bucket-\d+")
GROWING = ("events", "partition_states", "lag", "gaps")
"""Tables to which every micro-batch adds files; the others are rewritten when they change."""


def merge_small(directory: Path, table: str, paths: list[str], low: int) -> tuple[list[str], list[str]]:
    """Merge MANY small files into one of the micro-batch that begins at offset `low`, per bucket.

    Return the files of the table, and the files that were merged.
    """
    kept, merged = list(paths), []
    by_bucket: dict[str, list[str]] = {}
    for path in paths:
        match = _BUCKET.search(path)
        by_bucket.setdefault(match[0] if match else "all", []).append(path)
    for bucket, in_bucket in by_bucket.items():
        if len(in_bucket) < MANY:
            continue
        small = [path for path in in_bucket if (directory / path).stat().st_size < SMALL_BYTES]
        if len(small) < MANY:
            continue
        target = path_in(table, low, f"merged-{bucket}")
        write_table(directory, target, read_files(directory, small, table))
        kept = [path for path in kept if path not in set(small)]
        kept.append(target)
        merged.extend(small)
    return kept, merged
