"""`quorumd configs`: read and change the configs that the quorum keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quorumd.cli import options
from quorumd.cli.output import columns, print_json

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses

F = TypeVar("F", bound=Callable[..., Any])

TYPES = {"broker": 4, "client-metrics": 16, "group": 32}
"""Kafka's ConfigResource types, as far as the quorum keeps configs of them."""


def _resource(command: F) -> F:
    """`--type` and `--name`: what the configs belong to."""
    typed = click.option(
        "--type", "kind", type=click.Choice(list(TYPES)), required=True, help="What the configs belong to."
    )
    named = click.option(
        "--name", required=True, help='Its name; a node id for broker, "" for the default of all brokers.'
    )
    return options.bootstrap_server(typed(named(command)))


@click.group()
def configs() -> None:
    """Read and change configs.

    \b
    Examples:
      quorumd configs set --bootstrap-server 127.0.0.1:9192 --type group --name orders \\
        consumer.session.timeout.ms=45000
      quorumd configs get --bootstrap-server 127.0.0.1:9192 --type group --name orders
    """


@configs.command()
@_resource
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@options.output
def get(servers: Addresses, kind: str, name: str, keys: tuple[str, ...], output: str) -> None:
    """Show the configs of one resource, all of them or those named. Exit code 1 if one that is named is not
    set.

    \b
    Examples:
      quorumd configs get --bootstrap-server 127.0.0.1:9192 --type group --name orders
      quorumd configs get --bootstrap-server 127.0.0.1:9192 --type broker --name 1 --output json
    """


@configs.command("set")
@_resource
@click.argument("assignments", metavar="KEY=VALUE...", nargs=-1, required=True)
def set_command(servers: Addresses, kind: str, name: str, assignments: tuple[str, ...]) -> None:
    """Set configs of one resource, all or none; returns once a majority has them on disk.

    \b
    Examples:
      quorumd configs set --bootstrap-server 127.0.0.1:9192 --type group --name orders \\
        consumer.session.timeout.ms=45000 consumer.heartbeat.interval.ms=5000
      quorumd configs set --bootstrap-server 127.0.0.1:9192 --type broker --name "" log.cleaner.threads=2
    """


@configs.command()
@_resource
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
def delete(servers: Addresses, kind: str, name: str, keys: tuple[str, ...]) -> None:
    """Delete configs of one resource: their defaults hold again.

    \b
    Example:
      quorumd configs delete --bootstrap-server 127.0.0.1:9192 --type group --name orders \\
        consumer.session.timeout.ms
    """
