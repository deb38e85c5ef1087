"""`quorumd acls`: list, add and remove ACLs."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.command_group import CommandGroup
from quorumd.cli.output import JsonObject, columns, print_json
from quorumd.errors import RequestFailed
from quorumd.security.acls import (
    ANY,
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    host_of_acl,
)

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses

F = TypeVar("F", bound=Callable[..., object])
COLUMNS = ("resource", "name", "pattern", "principal", "host", "operation", "permission")


def _names(codes: type[IntEnum]) -> list[str]:
    return [code.name.lower().replace("_", "-") for code in codes]


_KINDS = _names(ResourceType)
_OPERATIONS = _names(Operation)


def _code(codes: type[IntEnum], name: str) -> int:
    return int(codes[name.upper().replace("-", "_")])


def _shown(codes: type[IntEnum], code: int) -> str:
    try:
        return codes(code).name.lower().replace("_", "-")
    except ValueError:
        return str(code)


def _host(text: str) -> str:
    """The host of an ACL. A click parameter type."""
    try:
        return host_of_acl(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not an address, a range of addresses or {WILDCARD}; ACLs do not apply to host names"
        ) from None


def _row(acl: Acl) -> JsonObject:
    """An ACL in `--output json`."""
    return {
        "resource": _shown(ResourceType, acl.resource_type),
        "name": acl.name,
        "pattern": _shown(PatternType, acl.pattern_type),
        "principal": acl.principal,
        "host": acl.host,
        "operation": _shown(Operation, acl.operation),
        "permission": _shown(Permission, acl.permission),
    }


def _filters(command: F) -> F:
    """The options that select ACLs."""
    for option in reversed(
        (
            click.option(
                "--resource",
                type=click.Choice(_KINDS),
                metavar="KIND",
                help="Select by the kind of resource.",
            ),
            click.option("--name", help="Select by the name of the resource."),
            click.option(
                "--pattern",
                type=click.Choice([*_names(PatternType), "any"]),
                default="any",
                help="Select by pattern type; match selects every pattern that applies to the name.",
            ),
            click.option("--principal", help="Select by principal, such as User:alice."),
            click.option("--host", help="Select by host."),
            click.option(
                "--operation",
                type=click.Choice(_OPERATIONS),
                metavar="OPERATION",
                help="Select by operation.",
            ),
            click.option("--permission", type=click.Choice(_names(Permission)), help="Select allow or deny."),
        )
    ):
        command = option(command)
    return command


def _selected(
    resource: str | None,
    name: str | None,
    pattern: str,
    principal: str | None,
    host: str | None,
    operation: str | None,
    permission: str | None,
) -> AclFilter:
    return AclFilter(
        ANY if resource is None else _code(ResourceType, resource),
        ANY if pattern == "any" else _code(PatternType, pattern),
        name,
        principal,
        host,
        ANY if operation is None else _code(Operation, operation),
        ANY if permission is None else _code(Permission, permission),
    )


def _show(acls: list[Acl], output: str) -> None:
    rows = [_row(acl) for acl in sorted(acls)]
    if output == "json":
        print_json(rows)
    else:
        click.echo(columns(COLUMNS, [list(row.values()) for row in rows]))


@click.group(cls=CommandGroup)
def acls() -> None:
    """List, add and remove ACLs.

    \b
    Examples:
      quorumd acls add --bootstrap-server 127.0.0.1:9192 --principal User:alice --resource topic \\
        --name orders --operation read
      quorumd acls list --bootstrap-server 127.0.0.1:9192
    """


@acls.command("list")
@_filters
@options.bootstrap_server
@options.output
def list_command(servers: Addresses, output: str, **selection: str) -> None:
    """List the ACLs that match all given options.

    \b
    Examples:
      quorumd acls list --bootstrap-server 127.0.0.1:9192
      quorumd acls list --bootstrap-server 127.0.0.1:9192 --resource topic --name orders --pattern match
    """
    from quorumd.client.access import list_acls

    selected = _selected(**selection)
    _show(run_admin(servers, lambda admin: list_acls(admin, selected)), output)


@acls.command()
@click.option(
    "--principal",
    required=True,
    help="Add ACLs of this principal, such as User:alice; User:* is every principal.",
)
@click.option(
    "--resource",
    type=click.Choice(_KINDS),
    metavar="KIND",
    required=True,
    help=f"Apply to this kind of resource, one of {', '.join(_KINDS)}.",
)
@click.option("--name", help="Apply to the resource with this name, * for all; not needed for the cluster.")
@click.option("--prefix", is_flag=True, help="Apply to every resource whose name begins with --name.")
@click.option(
    "--operation",
    "operations",
    type=click.Choice(_OPERATIONS),
    metavar="OPERATION",
    multiple=True,
    required=True,
    help=f"Apply to this operation, one of {', '.join(_OPERATIONS)}; may be repeated.",
)
@click.option(
    "--host",
    type=_host,
    metavar="HOST",
    default=WILDCARD,
    show_default=True,
    help="Apply to clients at this address, or in this range such as 10.0.0.0/8.",
)
@click.option("--deny", is_flag=True, help="Deny instead of allow.")
@options.bootstrap_server
@options.output
def add(
    principal: str,
    resource: str,
    name: str | None,
    prefix: bool,
    operations: tuple[str, ...],
    host: str,
    deny: bool,
    servers: Addresses,
    output: str,
) -> None:
    """Add ACLs, one per operation; return once a majority has them on disk.

    \b
    Examples:
      quorumd acls add --bootstrap-server 127.0.0.1:9192 --principal User:alice --resource topic \\
        --name orders --operation read --operation write
      quorumd acls add --bootstrap-server 127.0.0.1:9192 --principal User:broker --resource cluster \\
        --operation cluster-action
    """
    from quorumd.client.access import add_acls

    kind = ResourceType(_code(ResourceType, resource))
    supported = ["all", *(_shown(Operation, code) for code in OPERATIONS[kind])]
    for operation in operations:
        if operation not in supported:
            raise click.UsageError(
                f"--operation {operation} does not apply to --resource {resource}; use one of {', '.join(supported)}"
            )
    if name is None and kind != ResourceType.CLUSTER:
        raise click.UsageError(f"--name is required with --resource {resource}")
    added = [
        Acl(
            int(kind),
            int(PatternType.PREFIXED if prefix else PatternType.LITERAL),
            name or CLUSTER_NAME,
            principal,
            host,
            _code(Operation, operation),
            int(Permission.DENY if deny else Permission.ALLOW),
        )
        for operation in dict.fromkeys(operations)
    ]
    run_admin(servers, lambda admin: add_acls(admin, added))
    _show(added, output)


@acls.command()
@_filters
@options.bootstrap_server
@options.output
def remove(servers: Addresses, output: str, **selection: str) -> None:
    """Remove the ACLs that match all given options, and show them. Exit code 1 if there is none.

    \b
    Examples:
      quorumd acls remove --bootstrap-server 127.0.0.1:9192 --principal User:alice
      quorumd acls remove --bootstrap-server 127.0.0.1:9192 --resource topic --name orders --operation write
    """
    from quorumd.client.access import remove_acls

    if not any(value for key, value in selection.items() if key != "pattern"):
        raise click.UsageError("give at least one option that selects ACLs, such as --principal")
    selected = _selected(**selection)
    removed = run_admin(servers, lambda admin: remove_acls(admin, selected))
    if not removed:
        raise RequestFailed("no ACL matches; nothing was removed")
    _show(removed, output)
