"""`quorumd partitions`: move partitions to other brokers and elect their leaders."""

from __future__ import annotations

import click

from quorumd.cli.command_group import CommandGroup
from quorumd.cli.partitions.elect import elect
from quorumd.cli.partitions.reassign import reassign


@click.group(cls=CommandGroup)
def partitions() -> None:
    """Move partitions to other brokers and elect their leaders.

    \b
    Examples:
      quorumd partitions reassign --bootstrap-server 127.0.0.1:9192 --plan move.json --execute --wait
      quorumd partitions elect --bootstrap-server 127.0.0.1:9192 --preferred --all
    """


for _command in (reassign, elect):
    partitions.add_command(_command)
