"""`quorumd quotas`: list, set and remove client quotas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.command_group import CommandGroup
from quorumd.cli.output import columns, print_json
from quorumd.errors import RequestFailed

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses

F = TypeVar("F", bound=Callable[..., object])
DEFAULT_NAME = "<default>"


def _entity(command: F) -> F:
    """`--user`, `--client-id` and `--ip`: the entity of the quotas."""
    for name, what in (("--ip", "an IP address"), ("--client-id", "a client id"), ("--user", "a user")):
        command = click.option(
            name, help=f"Select {what}; {DEFAULT_NAME} for all without quotas of their own."
        )(command)
    return command


def _selected(user: str | None, client_id: str | None, ip: str | None) -> dict[str, str | None]:
    given = {"user": user, "client-id": client_id, "ip": ip}
    found = {kind: None if name == DEFAULT_NAME else name for kind, name in given.items() if name is not None}
    if not found:
        raise click.UsageError("use at least one of --user, --client-id and --ip")
    return found


@click.group(cls=CommandGroup)
def quotas() -> None:
    """List, set and remove client quotas.

    \b
    Examples:
      quorumd quotas set producer_byte_rate=1048576 --user alice --bootstrap-server 127.0.0.1:9192
      quorumd quotas list --bootstrap-server 127.0.0.1:9192
    """


@quotas.command("list")
@options.bootstrap_server
@options.output
def list_command(servers: Addresses, output: str) -> None:
    """List all quotas.

    \b
    Examples:
      quorumd quotas list --bootstrap-server 127.0.0.1:9192
      quorumd quotas list --bootstrap-server 127.0.0.1:9192 --output json
    """
    from quorumd.client.access import list_quotas

    entries = run_admin(servers, list_quotas)
    if output == "json":
        print_json(
            [
                {
                    "entity": {part.entity_type: part.entity_name for part in entry.entity},
                    "quotas": {value.key: value.value for value in entry.values},
                }
                for entry in entries
            ]
        )
        return
    rows = [
        (
            _shown({part.entity_type: part.entity_name for part in entry.entity}),
            value.key,
            f"{value.value:g}",
        )
        for entry in entries
        for value in entry.values
    ]
    click.echo(columns(("entity", "quota", "value"), rows))


@quotas.command("set")
@click.argument("assignments", metavar="QUOTA=VALUE...", nargs=-1, required=True)
@_entity
@options.bootstrap_server
@options.output
def set_command(
    assignments: tuple[str, ...],
    user: str | None,
    client_id: str | None,
    ip: str | None,
    servers: Addresses,
    output: str,
) -> None:
    """Set quotas of one entity.

    For users and client ids: producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate.
    For IP addresses: connection_creation_rate.

    \b
    Examples:
      quorumd quotas set producer_byte_rate=1048576 --user alice --bootstrap-server 127.0.0.1:9192
      quorumd quotas set controller_mutation_rate=10 --user '<default>' --bootstrap-server 127.0.0.1:9192
    """
    values = dict(map(_assignment, assignments))
    _alter(servers, _selected(user, client_id, ip), values, output)


@quotas.command()
@click.argument("names", metavar="QUOTA...", nargs=-1, required=True)
@_entity
@options.bootstrap_server
@options.output
def remove(
    names: tuple[str, ...],
    user: str | None,
    client_id: str | None,
    ip: str | None,
    servers: Addresses,
    output: str,
) -> None:
    """Remove quotas of one entity. Exit code 1 if it does not have all of them.

    \b
    Example:
      quorumd quotas remove producer_byte_rate --user alice --bootstrap-server 127.0.0.1:9192
    """
    from quorumd.client.access import list_quotas

    entity = _selected(user, client_id, ip)
    present = {
        value.key
        for entry in run_admin(servers, list_quotas)
        if {part.entity_type: part.entity_name for part in entry.entity} == entity
        for value in entry.values
    }
    absent = [name for name in names if name not in present]
    if absent:
        raise RequestFailed(f"{_shown(entity)} has no quota {absent[0]}; nothing was removed")
    _alter(servers, entity, dict.fromkeys(names), output)


def _alter(
    servers: Addresses, entity: dict[str, str | None], values: dict[str, float | None], output: str
) -> None:
    from quorumd.client.access import alter_quota

    run_admin(servers, lambda admin: alter_quota(admin, entity, values))
    if output == "json":
        print_json({"entity": entity, "quotas": values})
    else:
        click.echo(f"committed: {_shown(entity)}")


def _shown(entity: Mapping[str, str | None]) -> str:
    return " ".join(f"{kind}={name or DEFAULT_NAME}" for kind, name in entity.items())


def _assignment(text: str) -> tuple[str, float | None]:
    key, _, value = text.partition("=")
    try:
        return key, float(value)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not QUOTA=NUMBER") from None
