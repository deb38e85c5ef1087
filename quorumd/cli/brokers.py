"""`quorumd brokers`: list, describe and unregister brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.command_group import CommandGroup
from quorumd.cli.output import JsonObject, columns, fields, print_json
from quorumd.errors import QuorumdError

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.client.admin import AdminClient
    from quorumd.protocol.messages.describe_cluster_response import DescribeClusterBroker

COLUMNS = ("Id", "State", "Leads", "Rack", "Epoch", "Listeners")

_broker_id = click.argument("broker_id", metavar="ID", type=click.IntRange(0, 2**31 - 1))


class BrokerError(QuorumdError):
    """The operation is not possible in the broker's current state."""


@click.group(cls=CommandGroup)
def brokers() -> None:
    """List, describe and unregister brokers.

    \b
    Examples:
      quorumd brokers list --bootstrap-server 127.0.0.1:9192
      quorumd brokers unregister 7 --bootstrap-server 127.0.0.1:9192
    """


@brokers.command("list")
@options.bootstrap_server
@options.output
def list_command(servers: Addresses, output: str) -> None:
    """List all registered brokers.

    State: running; fenced, because it has not caught up since its registration or its heartbeats stopped;
    stopping, in controlled shutdown, until other brokers lead its partitions. Fenced brokers lead no partition.
    Leads: the number of partitions that the broker leads. Epoch: the broker epoch, which changes with every
    registration.

    \b
    Examples:
      quorumd brokers list --bootstrap-server 127.0.0.1:9192
      quorumd brokers list --bootstrap-server 127.0.0.1:9192 --output json
    """
    rows = [broker_row(broker) for broker in run_admin(servers, registered_brokers)]
    if output == "json":
        print_json(rows)
    elif rows:
        keys = ("id", "state", "leads")
        cells = [
            [*(row[key] for key in keys), row["rack"] or "-", row["epoch"], ",".join(row["listeners"]) or "-"]
            for row in rows
        ]
        click.echo(columns(COLUMNS, cells))
    else:
        click.echo("no broker is registered")


@brokers.command()
@_broker_id
@options.bootstrap_server
@options.output
def describe(broker_id: int, servers: Addresses, output: str) -> None:
    """Describe one registered broker.

    \b
    Example:
      quorumd brokers describe 7 --bootstrap-server 127.0.0.1:9192
    """
    row = broker_row(run_admin(servers, lambda admin: find_broker(admin, broker_id)))
    if output == "json":
        print_json(row)
        return
    shown = {**row, "rack": row["rack"] or "-", "listeners": ", ".join(row["listeners"]) or "-"}
    click.echo(fields(shown.items()))


@brokers.command()
@_broker_id
@click.option(
    "--force",
    is_flag=True,
    help="Unregister the broker even if it is running; it must be restarted to rejoin.",
)
@options.bootstrap_server
@options.output
def unregister(broker_id: int, force: bool, servers: Addresses, output: str) -> None:
    """Unregister a broker that will not return.

    Its registration is deleted, and it leads no partition afterwards. It stays in the replica lists of its partitions
    until they are reassigned.

    \b
    Example:
      quorumd brokers unregister 7 --bootstrap-server 127.0.0.1:9192
    """

    async def unregister_broker(admin: AdminClient) -> None:
        broker = await find_broker(admin, broker_id)
        if not broker.is_fenced and not force:
            raise BrokerError(f"broker {broker_id} is {broker_state(broker)}; stop it first or use --force")
        await admin.unregister_broker(broker_id)

    run_admin(servers, unregister_broker)
    if output == "json":
        print_json({"id": broker_id, "registered": False})
    else:
        click.echo(f"unregistered: broker {broker_id}")


async def registered_brokers(admin: AdminClient) -> list[DescribeClusterBroker]:
    """The registered brokers by id. Nodes of the quorum are left out: they have no broker epoch."""
    cluster = await admin.describe_brokers()
    return sorted(
        (broker for broker in cluster.brokers if broker.broker_epoch >= 0),
        key=lambda broker: broker.broker_id,
    )


async def find_broker(admin: AdminClient, broker_id: int) -> DescribeClusterBroker:
    """The registered broker with this id. Raises BrokerError if there is none."""
    known = await registered_brokers(admin)
    for broker in known:
        if broker.broker_id == broker_id:
            return broker
    ids = ", ".join(str(broker.broker_id) for broker in known) or "none"
    raise BrokerError(f"broker {broker_id} is not registered; registered brokers: {ids}")


def broker_row(broker: DescribeClusterBroker) -> JsonObject:
    """One broker in `--output json`."""
    return {
        "id": broker.broker_id,
        "state": broker_state(broker),
        "leads": broker.leader_count,
        "rack": broker.rack,
        "epoch": broker.broker_epoch,
        "listeners": [
            f"{each.name}://{f'[{each.host}]' if ':' in each.host else each.host}:{each.port}"
            for each in broker.listeners
        ],
    }


def broker_state(broker: DescribeClusterBroker) -> str:
    """The state of a broker as one word."""
    if broker.is_fenced:
        return "fenced"
    return "stopping" if broker.in_controlled_shutdown else "running"
