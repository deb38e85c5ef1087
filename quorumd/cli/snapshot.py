"""`quorumd snapshot`: build a snapshot of a node's log now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.output import print_json, progress

if TYPE_CHECKING:
    from quorumd.config import Settings
    from quorumd.node.snapshots.builder import BuiltSnapshot, Progress


@click.command()
@options.config_file
@options.output
def snapshot(config_path: Path, output: str) -> None:
    """Build a snapshot of what is committed in a node's log, now.

    Nodes do this by themselves as their log grows. It works from the node's files, at low priority, beside
    the running node or while it is stopped; a running node takes note of the snapshot within seconds, and may
    remove what that makes superfluous of its log. Nothing is built if the newest snapshot holds all that is
    known to be committed.

    \b
    Examples:
      quorumd snapshot --config config/three-nodes/1.properties
      quorumd snapshot --config config/three-nodes/1.properties --output json
    """
    from quorumd.config import load
    from quorumd.log.meta_properties import partition_folder
    from quorumd.log.snapshot_file import file_name

    settings = load(str(config_path))
    with progress("reading the log") as tell:
        built = _build(settings, tell)
    for warning in built.warnings:
        click.echo(f"warning: {warning}", err=True)
    end_offset, epoch = built.snapshot
    path = f"{partition_folder(settings.node_settings().data_directory)}/{file_name(built.snapshot)}"
    if output == "json":
        print_json(
            {
                "endOffset": end_offset,
                "epoch": epoch,
                "path": path,
                "size": built.size,
                "records": built.records,
                "isNew": built.is_new,
            }
        )
        return
    if not built.is_new:
        click.echo("nothing was committed since the newest snapshot:")
    click.echo(
        f"{path}: end offset {end_offset}, epoch {epoch}, {built.records:,} records, {built.size:,} bytes"
    )


def _build(settings: Settings, tell: Progress) -> BuiltSnapshot:
    """In a thread of its own: the system knows the priority of threads, and Ctrl-C comes to the first one.

    Raises StorageError and the like, and QuorumdError where there is nothing to build.
    """
    import os
    from concurrent.futures import ThreadPoolExecutor

    from quorumd.errors import QuorumdError
    from quorumd.node.identity.identity_files import load_saved_node
    from quorumd.node.snapshots.builder import build_snapshot
    from quorumd.runtime.disk import OsDisk
    from quorumd.runtime.job_process import lower_priority

    folder = settings.node_settings().data_directory
    is_interrupted = False

    def report_or_exit(text: str) -> None:
        if is_interrupted:
            raise KeyboardInterrupt
        tell(text)

    disk = OsDisk(lambda callback: None)
    with ThreadPoolExecutor(1, initializer=lower_priority) as builder:
        committed = load_saved_node(
            disk, folder, settings.node_id, settings.listener.name
        ).known_high_watermark
        future = builder.submit(build_snapshot, disk, folder, committed, f"pid{os.getpid()}", report_or_exit)
        try:
            built = future.result()
        except KeyboardInterrupt:
            is_interrupted = True
            raise
    if built is None:
        raise QuorumdError(
            f"{folder}: nothing is known to be committed yet; a running node takes note of that every few seconds"
        )
    return built
