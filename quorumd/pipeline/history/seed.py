"""Finds the snapshot with which a history begins if the log no longer has its beginning."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from quorumd.errors import InputIncomplete
from quorumd.log.snapshot_file import file_name
from quorumd.output_files import replacing
from quorumd.pipeline.copies.log_files import parse_directories, read_directories
from quorumd.pipeline.tables.schemas import Row
from quorumd.protocol.control_record import ControlType

if TYPE_CHECKING:
    from quorumd.pipeline.live.observer import Observer

HEADER_COLUMNS = "snapshot_offset", "snapshot_epoch", "control", "type", "data"


@dataclass(frozen=True, slots=True)
class Seed:
    """A snapshot of the records below offset `end`."""

    end: int
    epoch: int
    ts: datetime
    """The timestamp of the last of these records."""


def find_seed(
    source: Mapping[str, str], known: int, copies: Path, report: Callable[[str], None]
) -> tuple[Seed, dict[str, str]] | None:
    """Return the snapshot from which to continue after offset `known`, and the source that has it.

    Returns None if the log has the next record, or if no snapshot reaches the start of the log. Damaged snapshots are
    reported and skipped if there is another one. The snapshot of a live cluster is copied to the directory `copies`,
    since the cluster may delete it before all of its records are read. Raises InputIncomplete, RequestFailed.
    """
    if "path" in source:
        found = _snapshot_of_directories(source["path"], known, report)
    else:
        found = _snapshot_of_cluster(source, known, copies, report)
    if found is None:
        return None
    path, end = found
    source = {key: value for key, value in source.items() if key != "bootstrap"} | {"path": path}
    header = _header(source, end)
    if header is None:
        return None
    last_ms = json.loads(header["data"])["lastContainedLogTimestamp"]
    ts = datetime.fromtimestamp(last_ms / 1000, UTC)
    return Seed(end, header["snapshot_epoch"], ts), source


def _header(source: Mapping[str, str], end: int) -> Row | None:
    """Return the first record of the snapshot that ends at offset `end`; None if it no longer exists."""
    from quorumd.pipeline.source.options import Interval, Selection, parse_options
    from quorumd.pipeline.source.reader import Reader

    options = parse_options(dict(source) | {"level": "snapshot"})
    reader = Reader(options, options.table.select(HEADER_COLUMNS))
    reader.pushed = Selection(offsets=Interval(0, 1))
    rows: Iterator[Row] = (
        row for task in reader.partitions() for batch in reader.rows(task) for row in batch.to_pylist()
    )
    for row in rows:
        is_header = row["control"] and row["type"] == ControlType.SNAPSHOT_HEADER
        if is_header and row["snapshot_offset"] == end:
            return row
    return None


def _snapshot_of_directories(path: str, known: int, report: Callable[[str], None]) -> tuple[str, int] | None:
    """Return ID=DIRECTORY and the end offset of the oldest snapshot that reaches the start of the followed log."""
    # Imported here: Spark's planning process does not need Arrow and numpy, which take 0.5 s to import.
    from quorumd.pipeline.history.copies import first_damage
    from quorumd.pipeline.source.followed import FollowedDirectories
    from quorumd.pipeline.source.options import EVERY_OFFSET
    from quorumd.pipeline.source.tasks import files_of

    directories = parse_directories(path)
    copies = FollowedDirectories(directories)
    reached = copies.look()
    start = copies.copies[reached.node].start_offset
    if start <= known:
        return None
    reaching = {
        (file.snapshot[0], file.node): file
        for file in files_of(read_directories(directories), "snapshot")
        if file.snapshot is not None and start <= file.snapshot[0] <= reached.offset
    }
    for (end, node), file in sorted(reaching.items()):
        damage = first_damage([file], EVERY_OFFSET)
        if damage is None:
            return f"{node}={directories[node]}", end
        report(f"a snapshot is damaged, trying the next one: {damage}")
    if reaching:
        raise InputIncomplete(
            f"the log begins at offset {start}, and all snapshots up to it are damaged; add the directory of another "
            "copy"
        )
    return None


def _snapshot_of_cluster(
    source: Mapping[str, str], known: int, copies: Path, report: Callable[[str], None]
) -> tuple[str, int] | None:
    """Copy the newest snapshot if the log begins after `known`; return ID=DIRECTORY and its end offset."""
    with _observer(source, report) as observer:
        if observer.extent().start <= known:
            return None
        shutil.rmtree(copies, ignore_errors=True)
        copies.mkdir(parents=True)
        with replacing(copies / "copied") as file:
            snapshot = observer.copy_snapshot(file)
    if snapshot is None:
        return None
    (copies / "copied").rename(copies / file_name(snapshot))
    return str(copies), snapshot.offset


def _observer(source: Mapping[str, str], report: Callable[[str], None]) -> Observer:
    from quorumd.pipeline.source.options import parse_options

    return parse_options(source).observer(report=report)


def cluster_id_of(source: Mapping[str, str], report: Callable[[str], None]) -> str | None:
    """Return the cluster id, from meta.properties or from a live cluster.

    None if there is none, as for a log that was copied without meta.properties.
    Raises ConfigError, InputIncomplete, RequestFailed.
    """
    if "path" not in source:
        with _observer(source, report) as observer:
            return observer.cluster_id()
    for directory in read_directories(parse_directories(source["path"])):
        for place in (Path(directory.path), Path(directory.path).parent):
            for line in _lines(place / "meta.properties"):
                name, _, value = line.partition("=")
                if name.strip() == "cluster.id" and value.strip():
                    return value.strip()
    return None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
