"""`quorumd controllers`: list and unregister controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.command_group import CommandGroup
from quorumd.cli.output import JsonObject, columns, print_json

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.client.admin import AdminClient

COLUMNS = ("Id", "State", "Address")

_controller_id = click.argument("controller_id", metavar="ID", type=click.IntRange(0, 2**31 - 1))


@click.group(cls=CommandGroup)
def controllers() -> None:
    """List and unregister controllers.

    \b
    Examples:
      quorumd controllers list --bootstrap-server 127.0.0.1:9192
      quorumd controllers unregister 7 --bootstrap-server 127.0.0.1:9192
    """


@controllers.command("list")
@options.bootstrap_server
@options.output
def list_command(servers: Addresses, output: str) -> None:
    """List all registered controllers.

    State: leader, voter or observer; absent if the controller is neither a voter nor fetching. An absent
    controller blocks changes to features that it does not support until it is unregistered.

    \b
    Examples:
      quorumd controllers list --bootstrap-server 127.0.0.1:9192
      quorumd controllers list --bootstrap-server 127.0.0.1:9192 --output json
    """
    rows = run_admin(servers, controller_rows)
    if output == "json":
        print_json(rows)
    else:
        click.echo(columns(COLUMNS, [list(row.values()) for row in rows]))


@controllers.command()
@_controller_id
@options.bootstrap_server
@options.output
def unregister(controller_id: int, servers: Addresses, output: str) -> None:
    """Unregister a controller that will not return.

    A running controller registers again. To remove it from the voters, use `quorumd quorum remove-voter`.

    \b
    Example:
      quorumd controllers unregister 7 --bootstrap-server 127.0.0.1:9192
    """
    run_admin(servers, lambda admin: admin.unregister_controller(controller_id))
    if output == "json":
        print_json({"id": controller_id, "registered": False})
    else:
        click.echo(f"unregistered: controller {controller_id}")


async def controller_rows(admin: AdminClient) -> list[JsonObject]:
    """The controllers in `--output json`, by id."""
    cluster = await admin.describe_cluster("leader")
    quorum = await admin.describe_quorum()
    states = {replica.replica_id: "observer" for replica in quorum.observers}
    states |= {replica.replica_id: "voter" for replica in quorum.current_voters}
    states[quorum.leader_id] = "leader"
    return [
        {
            "id": node.broker_id,
            "state": states.get(node.broker_id, "absent"),
            "address": f"{f'[{node.host}]' if ':' in node.host else node.host}:{node.port}",
        }
        for node in sorted(cluster.brokers, key=lambda node: node.broker_id)
    ]
