"""`quorumd pipeline history`: a cluster's history as tables, and queries on them."""

from __future__ import annotations

import click

from quorumd.cli.command_group import CommandGroup
from quorumd.cli.pipeline.history_build import build
from quorumd.cli.pipeline.history_show import show
from quorumd.cli.pipeline.history_sql import sql
from quorumd.cli.pipeline.history_top import top


@click.group(cls=CommandGroup)
def history() -> None:
    """Build and query the history of a cluster: leaders, ISRs, epochs, brokers, lag.

    `build` writes the metadata log to Parquet files that any tool can read, once or continuously. `show` and `top`
    respond at once, without Spark; `sql` runs any query.

    Times are ages (30m, 24h, 7d) before the last record of the history, or ISO 8601 in UTC.

    \b
    Examples:
      quorumd pipeline history build --from 1=/srv/n1,2=/srv/n2 --to history
      quorumd pipeline history show partitions --topic orders --partition 3 --since 1h
      quorumd pipeline history top under-min-isr --window 24h
      quorumd pipeline history sql "select * from reassignments where outcome = 'done'"
    """


for _command in (build, show, top, sql):
    history.add_command(_command)
