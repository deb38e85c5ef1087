"""Where a history begins: at offset 0, or with the snapshot that a log without its beginning goes on from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from quorumd.errors import InputIncomplete
from quorumd.pipeline.copies.log_files import parse_folders, read_folders
from quorumd.protocol.control_record import ControlType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Seed:
    """A snapshot that holds what is below offset `end`; `ts` is when the last of it was appended."""

    end: int
    epoch: int
    ts: datetime


def find_seed(
    session: SparkSession, source: Mapping[str, str], known: int, report: Callable[[str], None]
) -> tuple[Seed, dict[str, str]] | None:
    """The snapshot that the log goes on from, and the source that has it, for who has all below offset `known`; None
    where the log has what comes next, and where no snapshot reaches the beginning of the log. One that is damaged is
    told and left out, if there is another. Raises InputIncomplete, RequestFailed."""
    source = dict(source)
    end = None
    if "path" in source:
        found = _snapshot_of_folders(source["path"], known, report)
        if found is None:
            return None
        source["path"], end = found
    elif not _begins_behind(source, known):
        return None
    frame = session.read.format("quorumd").options(**source, level="snapshot", lists="packed").load()
    if end is not None:
        frame = frame.where(frame.snapshot_offset == end)
    header = frame.where(frame.control & (frame.type == int(ControlType.SNAPSHOT_HEADER))).first()
    if header is None:
        return None
    last_ms = json.loads(header.data)["lastContainedLogTimestamp"]
    ts = datetime.fromtimestamp(last_ms / 1000, UTC)
    return Seed(header.snapshot_offset, header.snapshot_epoch, ts), source


def _snapshot_of_folders(path: str, known: int, report: Callable[[str], None]) -> tuple[str, int] | None:
    """(ID=FOLDER of a node, end offset) of the oldest snapshot that reaches the log that is followed."""
    # Where Spark plans, Arrow and numpy are not needed: half a second of imports.
    from quorumd.pipeline.history.copies import first_damage
    from quorumd.pipeline.source.followed import FollowedFolders
    from quorumd.pipeline.source.options import EVERY_OFFSET
    from quorumd.pipeline.source.tasks import files_of

    folders = parse_folders(path)
    copies = FollowedFolders(folders)
    reached = copies.look()
    start = copies.copies[reached.node].start_offset
    if start <= known:
        return None
    reaching = {
        (file.snapshot[0], file.node): file
        for file in files_of(read_folders(folders), "snapshot")
        if file.snapshot is not None and start <= file.snapshot[0] <= reached.offset
    }
    for (end, node), file in sorted(reaching.items()):
        damage = first_damage([file], EVERY_OFFSET)
        if damage is None:
            return f"{node}={folders[node]}", end
        report(f"a snapshot is damaged, another one is looked for: {damage}")
    if reaching:
        raise InputIncomplete(
            f"the log begins at offset {start}, and all snapshots up to it are damaged; add the folder of another "
            "copy"
        )
    return None


def _begins_behind(source: Mapping[str, str], known: int) -> bool:
    from quorumd.pipeline.live.observer import Observer
    from quorumd.pipeline.source.options import parse_options

    options = parse_options(source)
    with Observer(options.bootstrap, timeout_s=options.timeout_s) as observer:
        return observer.extent().start > known


def cluster_id_of(source: Mapping[str, str]) -> str | None:
    """What meta.properties beside a log says: stock Kafka's log does not. Raises ConfigError, InputIncomplete."""
    if "path" not in source:
        return None
    for folder in read_folders(parse_folders(source["path"])):
        for place in (Path(folder.path), Path(folder.path).parent):
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
