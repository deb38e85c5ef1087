"""`quorumd configs`: read and change dynamic configs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.command_group import CommandGroup
from quorumd.cli.output import print_json
from quorumd.errors import RequestFailed

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses

F = TypeVar("F", bound=Callable[..., object])

TYPES = {"topic": 2, "broker": 4, "client-metrics": 16, "group": 32}
"""Kafka's resource types whose configs the metadata log holds."""

SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
"""Kafka's names of config sources."""

OWN_SOURCES = {"topic": 1, "broker": 2, "client-metrics": 7, "group": 8}
"""The source of values set on the resource itself."""
CLUSTER_DEFAULT_SOURCE = 3
CORDONED_LOG_DIRS = "cordoned.log.dirs"
"""Set through the broker with the log directories: the leader does not know their paths."""


def _resource(command: F) -> F:
    """`--type` and `--name`: the resource of the configs."""
    typed = click.option(
        "--type",
        "kind",
        type=click.Choice(list(TYPES)),
        required=True,
        help="Select the type of the resource.",
    )
    named = click.option(
        "--name",
        required=True,
        help='Select the resource by name; for brokers a node id, or "" for the default of all brokers.',
    )
    return options.bootstrap_server(typed(named(command)))


@click.group(cls=CommandGroup)
def configs() -> None:
    """Read and change dynamic configs.

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
    """Show all configs of one resource, or the given ones. Exit code 1 if the resource lacks a given config.

    \b
    Examples:
      quorumd configs get --bootstrap-server 127.0.0.1:9192 --type group --name orders
      quorumd configs get --bootstrap-server 127.0.0.1:9192 --type broker --name 1 --output json
    """
    found = run_admin(servers, lambda admin: admin.describe_configs(TYPES[kind], name, list(keys) or None))
    rows = [
        {
            "name": config.name,
            "value": config.value,
            "source": SOURCES.get(config.config_source, str(config.config_source)),
            "readOnly": config.read_only,
        }
        for config in sorted(found, key=lambda config: config.name)
    ]
    if output == "json":
        print_json(rows)
    else:
        for row in rows:
            click.echo(f"{row['name']}={row['value']}")
    missing = sorted(set(keys) - {row["name"] for row in rows})
    if missing:
        raise RequestFailed(
            f"{kind} {name!r} has no config {', '.join(missing)}; set it with `quorumd configs set`"
        )


@configs.command("set")
@_resource
@click.argument("assignments", metavar="KEY=VALUE...", nargs=-1, required=True)
@options.output
def set_command(servers: Addresses, kind: str, name: str, assignments: tuple[str, ...], output: str) -> None:
    """Set configs of one resource atomically; return once a majority has them on disk.

    \b
    Examples:
      quorumd configs set --bootstrap-server 127.0.0.1:9192 --type group --name orders \\
        consumer.session.timeout.ms=45000 consumer.heartbeat.interval.ms=5000
      quorumd configs set --bootstrap-server 127.0.0.1:9192 --type broker --name "" log.cleaner.threads=2
      quorumd configs set --bootstrap-server 127.0.0.1:9192 --type broker --name 7 "cordoned.log.dirs=*"
    """
    changes = parse_assignments(assignments)
    by_broker = kind == "broker" and bool(changes.get(CORDONED_LOG_DIRS))
    run_admin(servers, lambda admin: admin.alter_configs(TYPES[kind], name, changes, by_broker=by_broker))
    if output == "json":
        print_json({"type": kind, "name": name, "set": changes})
    else:
        click.echo(f"committed: {kind} {name!r}, {', '.join(assignments)}")


@configs.command()
@_resource
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@options.output
def delete(servers: Addresses, kind: str, name: str, keys: tuple[str, ...], output: str) -> None:
    """Delete configs of one resource atomically, which restores their defaults. Exit code 1 if one is not set.

    \b
    Example:
      quorumd configs delete --bootstrap-server 127.0.0.1:9192 --type group --name orders \\
        consumer.session.timeout.ms
    """
    found = run_admin(servers, lambda admin: admin.describe_configs(TYPES[kind], name, list(keys)))
    # A value that is inherited or a default is not set on this resource and cannot be deleted here.
    own = OWN_SOURCES[kind] if name or kind != "broker" else CLUSTER_DEFAULT_SOURCE
    missing = sorted(set(keys) - {config.name for config in found if config.config_source == own})
    if missing:
        raise RequestFailed(f"{kind} {name!r} does not set {', '.join(missing)}; nothing was deleted")
    run_admin(servers, lambda admin: admin.alter_configs(TYPES[kind], name, dict.fromkeys(keys)))
    if output == "json":
        print_json({"type": kind, "name": name, "deleted": list(keys)})
    else:
        click.echo(f"committed: {kind} {name!r}, deleted {', '.join(keys)}")


def parse_assignments(assignments: Sequence[str]) -> dict[str, str | None]:
    """KEY=VALUE texts as a mapping; a value may be empty or contain '='."""
    changes: dict[str, str | None] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{assignment!r} is not KEY=VALUE")
        if key in changes:
            raise click.BadParameter(f"{key} is given twice")
        changes[key] = value
    return changes
