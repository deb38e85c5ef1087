"""`quorumd snapshot`: build a snapshot of a node's log."""

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
    """Build a snapshot of a node's committed log.

    Nodes do this automatically as their log grows. This command reads the node's files at low priority, while
    the node is running or stopped; a running node picks up the snapshot within seconds and may delete log
    segments that the snapshot covers. No snapshot is built if the newest one covers all known committed records.

    \b
    Examples:
      quorumd snapshot --config config/three-nodes/1.properties
      quorumd snapshot --config config/three-nodes/1.properties --output json
    """
    from quorumd.config import load
    from quorumd.log.meta_properties import partition_directory
    from quorumd.log.snapshot_file import file_name

    settings = load(str(config_path))
    with progress("reading the log") as show:
        built = _build(settings, show)
    for warning in built.warnings:
        click.echo(f"warning: {warning}", err=True)
    end_offset, epoch = built.snapshot
    path = f"{partition_directory(settings.node_settings().data_directory)}/{file_name(built.snapshot)}"
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
        click.echo("no records have been committed since the newest snapshot:")
    click.echo(
        f"{path}: end offset {end_offset}, epoch {epoch}, {built.records:,} records, {built.size:,} bytes"
    )


def _build(settings: Settings, show: Progress) -> BuiltSnapshot:
    """Build the snapshot in a separate thread: priorities are per thread, and Ctrl-C interrupts the main one.

    Raises StorageError, and QuorumdError if there is nothing to build.
    """
    import os
    from concurrent.futures import ThreadPoolExecutor

    from quorumd.errors import QuorumdError
    from quorumd.node.identity.identity_files import load_saved_node
    from quorumd.node.snapshots.builder import build_snapshot
    from quorumd.runtime.disk import OsDisk
    from quorumd.runtime.job_process import lower_priority

    directory = settings.node_settings().data_directory
    is_interrupted = False

    def report_or_exit(text: str) -> None:
        if is_interrupted:
            raise KeyboardInterrupt
        show(text)

    disk = OsDisk(lambda callback: None)
    with ThreadPoolExecutor(1, initializer=lower_priority) as builder:
        committed = load_saved_node(
            disk, directory, settings.node_id, settings.listener.name
        ).known_high_watermark
        future = builder.submit(
            build_snapshot, disk, directory, committed, f"pid{os.getpid()}", report_or_exit
        )
        try:
            built = future.result()
        except KeyboardInterrupt:
            is_interrupted = True
            raise
    if built is None:
        raise QuorumdError(
            f"{directory}: no committed records known; a running node stores its high watermark every few seconds"
        )
    return built
