"""`quorumd pipeline plan apply`: execute the waves of a plan one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorumd.cli.pipeline.plan_execution import execution_options, run_waves, wave_numbers

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses


@click.command()
@execution_options
def apply(
    directory: Path,
    servers: Addresses,
    execute: bool,
    wave: int | None,
    wave_timeout_s: float,
    force: bool,
    output: str,
) -> None:
    """Execute a plan wave by wave, each after the previous one is done.

    Partitions that are already as planned are skipped, so that a stopped plan resumes when it is applied again. If
    partitions of a wave were changed since the plan was made, the plan stops before this wave, unless --force is
    given. After each wave the preferred leaders of its partitions are elected.

    \b
    Examples:
      quorumd pipeline plan apply plan --bootstrap-server 127.0.0.1:9192
      quorumd pipeline plan apply plan --bootstrap-server 127.0.0.1:9192 --execute
      quorumd pipeline plan apply plan --bootstrap-server 127.0.0.1:9192 --execute --wave 3
    """
    from quorumd.pipeline.plan.files import rollback_file, wave_file

    numbers = wave_numbers(directory, wave)
    waves = [(number, wave_file(directory, number), rollback_file(directory, number)) for number in numbers]
    run_waves(waves, servers, execute, wave_timeout_s, force, output)
