"""`quorumd partitions elect`: trigger leader elections (KIP-460)."""

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
"""The maximum number of partitions listed in a warning."""


@click.command()
@click.option(
    "--preferred", is_flag=True, help="Elect the preferred leader, the first replica, if it is in sync."
)
@click.option(
    "--unclean",
    is_flag=True,
    help="Elect any live replica of a partition without a leader; acknowledged records may be lost.",
)
@click.option("--topic", help="Elect leaders in this topic.")
@click.option(
    "--partition",
    "numbers",
    type=click.IntRange(0, 2**31 - 1),
    multiple=True,
    help="Elect the leader of this partition of --topic; may be repeated.  [default: all of its partitions]",
)
@click.option("--all", "everything", is_flag=True, help="Elect leaders in all partitions that need it.")
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
    """Trigger leader elections. Partitions that need no election are skipped. Exit code 1 if an election failed.

    --unclean is for partitions without a leader whose in-sync replicas will not return. The new leader may lack
    acknowledged records: they are lost permanently, and the other replicas truncate theirs once they return. If an
    in-sync replica can be brought back, do that instead: it becomes the leader automatically.

    \b
    Examples:
      quorumd partitions elect --bootstrap-server 127.0.0.1:9192 --preferred --all
      quorumd partitions elect --bootstrap-server 127.0.0.1:9192 --unclean --topic orders --partition 3
    """
    if preferred is unclean:
        raise click.UsageError("use exactly one of --preferred and --unclean")
    if everything is (topic is not None):
        raise click.UsageError("use exactly one of --topic and --all")
    if numbers and topic is None:
        raise click.UsageError("--partition requires --topic")
    results = run_admin(servers, lambda admin: run_election(admin, unclean, topic, numbers))
    show(results, output)
    if unclean:
        warn_of_data_loss(results)
    failed = [where for where, error in results.items() if _is_failure(error)]
    if failed:
        raise RequestFailed(f"no leader was elected for {len(failed)} of {len(results)} partitions")


async def run_election(
    admin: AdminClient, unclean: bool, topic: str | None, numbers: tuple[int, ...]
) -> dict[TopicPartition, ItemError | None]:
    """The result of each partition's election, None for a new leader. Raises RequestFailed."""
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
    """Warn about partitions in which records may be lost."""
    elected = [f"{where.topic}-{where.partition}" for where, error in results.items() if error is None]
    if elected:
        more = f" and {len(elected) - SHOWN} more" if len(elected) > SHOWN else ""
        click.echo(
            f"warning: acknowledged records may be lost in {', '.join(elected[:SHOWN])}{more}: "
            "the other replicas truncate records that the new leader lacks",
            err=True,
        )


def show(results: dict[TopicPartition, ItemError | None], output: str) -> None:
    """Print the result of each partition."""
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
