"""`quorumd partitions elect`: elect leaders anew (KIP-460)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.output import columns, print_json
from quorumd.errors import ErrorCode, RequestFailed

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.client.admin import AdminClient, ItemError, TopicPartition

SHOWN = 10
"""Partitions that a warning names."""


@click.command()
@click.option("--preferred", is_flag=True, help="The first of the replicas, if it is in sync.")
@click.option(
    "--unclean",
    is_flag=True,
    help="Where nobody leads: any replica that is up. What was acknowledged and it lacks is lost.",
)
@click.option("--topic", help="The topic of the partitions.")
@click.option(
    "--partition",
    "numbers",
    type=click.IntRange(0, 2**31 - 1),
    multiple=True,
    help="A partition of the topic, may be given again; all of them if not given.",
)
@click.option("--all", "everything", is_flag=True, help="All partitions of all topics that need it.")
@options.bootstrap_server
@options.output
def elect(
    preferred: bool,
    unclean: bool,
    topic: str | None,
    numbers: tuple[int, ...],
    everything: bool,
    servers: Addresses,
    output: str,
) -> None:
    """Elect leaders anew. Where it is not needed nothing happens. Exit code 1 if somewhere it did not work.

    --unclean is for partitions without a leader whose in-sync replicas will not come back. A replica leads then that
    may lack records that producers were told are written: these are lost for good, and the other replicas cut theirs
    as well, when they are back. If one that is in sync can be brought back, do that instead: it leads by itself.

    \b
    Examples:
      quorumd partitions elect --bootstrap-server 127.0.0.1:9192 --preferred --all
      quorumd partitions elect --bootstrap-server 127.0.0.1:9192 --unclean --topic orders --partition 3
    """
    if preferred is unclean:
        raise click.UsageError("either --preferred or --unclean says who is to be elected")
    if everything is (topic is not None):
        raise click.UsageError("either --topic or --all says where")
    if numbers and topic is None:
        raise click.UsageError("--partition is one of a --topic")
    results = run_admin(servers, lambda admin: run_election(admin, unclean, topic, numbers))
    show(results, output)
    if unclean:
        warn_of_data_loss(results)
    failed = [where for where, error in results.items() if _is_failure(error)]
    if failed:
        raise RequestFailed(f"{len(failed)} of {len(results)} partitions have no new leader")


async def run_election(
    admin: AdminClient, unclean: bool, topic: str | None, numbers: tuple[int, ...]
) -> dict[TopicPartition, ItemError | None]:
    """What came of the election in each partition, None for a new leader. Raises RequestFailed."""
    from quorumd.client.admin import ElectionType, TopicPartition

    election = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    if topic is None:
        return await admin.elect_leaders(election)
    if not numbers:
        (found,) = await admin.describe_topics([topic])
        numbers = tuple(sorted(partition.partition_index for partition in found.partitions))
    return await admin.elect_leaders(
        election, [TopicPartition(topic, number) for number in dict.fromkeys(numbers)]
    )


def warn_of_data_loss(results: dict[TopicPartition, ItemError | None]) -> None:
    """Say where records may be missing now."""
    elected = [f"{where.topic}-{where.partition}" for where, error in results.items() if error is None]
    if elected:
        more = f" and {len(elected) - SHOWN} more" if len(elected) > SHOWN else ""
        click.echo(
            f"warning: acknowledged records may be lost in {', '.join(elected[:SHOWN])}{more}: "
            "what the new leader lacks is cut from the other replicas too",
            err=True,
        )


def show(results: dict[TopicPartition, ItemError | None], output: str) -> None:
    """A line for each partition that was told of."""
    rows = [
        {
            "topic": where.topic,
            "partition": where.partition,
            "elected": error is None,
            "error": ErrorCode.describe(error.code) if error is not None and _is_failure(error) else None,
            "message": error.text if error is not None else None,
        }
        for where, error in results.items()
    ]
    if output == "json":
        print_json(rows)
    elif not rows:
        click.echo("no partition needs an election")
    else:
        cells = [
            (f"{row['topic']}-{row['partition']}", "elected" if row["elected"] else row["message"])
            for row in rows
        ]
        click.echo(columns(("Partition", "Result"), cells))


def _is_failure(error: ItemError | None) -> bool:
    return error is not None and error.code != ErrorCode.ELECTION_NOT_NEEDED
