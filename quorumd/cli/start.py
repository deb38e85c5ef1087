"""`quorumd start`: run one node."""

from __future__ import annotations

from pathlib import Path

import click

from quorumd.cli import options
from quorumd.cli.format.command import format_data_directories
from quorumd.cli.imports import importing


@click.command()
@options.config_file
@click.option(
    "--format-if-needed",
    is_flag=True,
    help="Format the log directories first unless they are already formatted.",
)
def start(config_path: Path, format_if_needed: bool) -> None:
    """Run one node in the foreground until SIGTERM or Ctrl-C.

    The node notifies systemd once it is ready (Type=notify). A leader hands over leadership before it stops.
    `quorumd --help` lists the exit codes.

    \b
    Examples:
      quorumd start --config config/single-node.properties
      quorumd start --config config/three-nodes/1.properties --format-if-needed
    """
    with importing():
        from quorumd.config import load
        from quorumd.runtime.daemon import run

    settings = load(str(config_path))
    if format_if_needed:
        format_data_directories(settings, skips_unusable=True)
    raise click.exceptions.Exit(run(settings))
