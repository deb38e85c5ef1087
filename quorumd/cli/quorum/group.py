"""`quorumd quorum`: describe the quorum and change its voters."""

from __future__ import annotations

import click

from quorumd.cli.command_group import CommandGroup
from quorumd.cli.quorum.alter import alter
from quorumd.cli.quorum.describe import describe
from quorumd.cli.quorum.voters import add_voter, remove_voter


@click.group(cls=CommandGroup)
def quorum() -> None:
    """Describe the quorum and change its voters.

    \b
    Examples:
      quorumd quorum describe --bootstrap-server 127.0.0.1:9192
      quorumd quorum describe replication --bootstrap-server 127.0.0.1:9192
      quorumd quorum alter --bootstrap-server 127.0.0.1:9192 --voters 0,3,4 --wait
    """


for _command in (describe, alter, add_voter, remove_voter):
    quorum.add_command(_command)
