"""`quorumd config`: check a properties file and document its properties."""

from __future__ import annotations

from pathlib import Path

import click

from quorumd.cli import options
from quorumd.cli.command_group import CommandGroup
from quorumd.cli.output import print_json
from quorumd.errors import ConfigError, ExitCode


@click.group(cls=CommandGroup)
def config() -> None:
    """Check a properties file or list all properties.

    \b
    Examples:
      quorumd config check --config config/three-nodes/1.properties
      quorumd config docs
    """


@config.command()
@options.config_file
@options.output
def check(config_path: Path, output: str) -> None:
    """Check whether `quorumd start` would accept this file in this environment.

    Every problem is reported with its line. Exit code 2 if there is one.

    \b
    Examples:
      quorumd config check --config config/three-nodes/1.properties
      quorumd config check --config config/three-nodes/1.properties --output json
    """
    from quorumd.config import load

    try:
        settings = load(str(config_path))
    except ConfigError as error:
        if output == "text":
            raise
        document: dict[str, object] = {
            "file": str(config_path),
            "nodeId": None,
            "errors": str(error).splitlines(),
            "warnings": [],
        }
        print_json(document)
        raise click.exceptions.Exit(ExitCode.USAGE) from None
    warnings = list(settings.warnings())
    if output == "json":
        document = {"file": str(config_path), "nodeId": settings.node_id, "errors": [], "warnings": warnings}
        print_json(document)
        return
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"{config_path}: node {settings.node_id}, no problems")


@config.command()
@options.output
def docs(output: str) -> None:
    """List every property with its aliases, meaning, default and allowed values.

    \b
    Examples:
      quorumd config docs
      quorumd config docs --output json
    """
    from quorumd.config import documentation

    rows = documentation()
    if output == "json":
        print_json([row._asdict() for row in rows])
        return
    for row in rows:
        default = "required" if row.default == "required" else f"default {row.default or 'empty'}"
        click.echo(f"{' | '.join(row.keys)}\n    {row.meaning}\n    {default}; allowed: {row.allowed}\n")
