"""`quorumd config`: the properties of a node, checked and explained."""

from __future__ import annotations

from pathlib import Path

import click

from quorumd.cli import options
from quorumd.cli.output import print_json


@click.group()
def config() -> None:
    """Check a properties file, or list all properties.

    \b
    Examples:
      quorumd config check --config config/three-nodes/1.properties
      quorumd config docs
    """


@config.command()
@options.config_file
def check(config_path: Path) -> None:
    """Say whether `quorumd start` would accept this file; every problem with its line. Exit code 2 if not.

    \b
    Example:
      quorumd config check --config config/three-nodes/1.properties
    """
    from quorumd.config import load

    settings = load(str(config_path))
    for warning in settings.warnings():
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"{config_path}: node {settings.node_id}, no problems")


@config.command()
@options.output
def docs(output: str) -> None:
    """List every property with its other names, default, what is allowed, and what it means.

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
