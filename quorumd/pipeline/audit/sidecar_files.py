"""Reads the small files of a node: meta.properties, quorum-state and the high-watermark checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from quorumd.errors import StorageError
from quorumd.log.high_watermark_checkpoint import HighWatermarkCheckpoint
from quorumd.log.meta_properties import PARTITION_DIRECTORY, MetaProperties, load_meta_properties
from quorumd.log.quorum_state_file import QuorumStateFile, SavedState
from quorumd.pipeline.audit.findings import Finding, Severity
from quorumd.pipeline.copies.log_files import CopyDirectory
from quorumd.pipeline.copies.read_only_disk import ReadOnlyDisk

T = TypeVar("T")


@dataclass(slots=True)
class SidecarFiles:
    """The content of the files; None or 0 for a missing or invalid file."""

    node: int
    meta: MetaProperties | None = None
    state: SavedState | None = None
    high_watermark: int = 0
    findings: list[Finding] = field(default_factory=list)
    """A finding per invalid file."""


def read_sidecar_files(directory: CopyDirectory) -> SidecarFiles:
    """Read the files of a log directory, or of a directory of copied segments, which may lack them."""
    disk = ReadOnlyDisk()
    path = Path(directory.path)
    data_directory = str(path.parent if path.name == PARTITION_DIRECTORY else path)
    found = SidecarFiles(directory.node)

    def load(read: Callable[[], T]) -> T | None:
        try:
            return read()
        except StorageError as error:
            found.findings.append(Finding(Severity.WARNING, "STATE_UNREADABLE", str(error), directory.node))
            return None

    found.meta = load(lambda: load_meta_properties(disk, data_directory))
    found.state = load(QuorumStateFile(disk, directory.path).load)
    found.high_watermark = load(HighWatermarkCheckpoint(disk, data_directory).load) or 0
    return found
