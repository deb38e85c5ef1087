"""`quorumd pipeline plan rollback`: undo the waves of a plan in reverse order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorumd.cli.pipeline.plan_execution import execution_options, run_waves, wave_numbers

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses


@click.command()
@execution_options
def rollback(
    directory: Path,
    servers: Addresses,
    execute: bool,
    wave: int | None,
    wave_timeout_s: float,
    force: bool,
    output: str,
) -> None:
    """Undo a plan, the last wave first: all partitions get their previous replicas.

    \b
    Examples:
      quorumd pipeline plan rollback plan --bootstrap-server 127.0.0.1:9192
      quorumd pipeline plan rollback plan --bootstrap-server 127.0.0.1:9192 --execute
    """
    from quorumd.pipeline.plan.files import rollback_file, wave_file

    numbers = wave_numbers(directory, wave)[::-1]
    waves = [(number, rollback_file(directory, number), wave_file(directory, number)) for number in numbers]
    run_waves(waves, servers, execute, wave_timeout_s, force, output)
