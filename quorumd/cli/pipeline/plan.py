"""`quorumd pipeline plan`: reassignments with the fewest moves."""

from __future__ import annotations

import click

from quorumd.cli.command_group import CommandGroup
from quorumd.cli.pipeline.plan_apply import apply
from quorumd.cli.pipeline.plan_make import make
from quorumd.cli.pipeline.plan_rollback import rollback
from quorumd.cli.pipeline.plan_show import show
from quorumd.cli.pipeline.plan_verify import verify


@click.group(cls=CommandGroup)
def plan() -> None:
    """Balance a cluster with the fewest moves, in waves that can be rolled back.

    `make` writes a directory and changes nothing; `apply` executes it wave by wave. `quorumd partitions reassign` and
    Kafka's kafka-reassign-partitions accept the files in the directory as well.

    \b
    Examples:
      quorumd pipeline plan make --bootstrap-server 127.0.0.1:9192 --remove 7 --add 21:rackC --out plan
      quorumd pipeline plan show plan --brokers
      quorumd pipeline plan apply plan --bootstrap-server 127.0.0.1:9192 --execute
      quorumd pipeline plan verify plan --bootstrap-server 127.0.0.1:9192
    """


for _command in (make, show, apply, rollback, verify):
    plan.add_command(_command)
