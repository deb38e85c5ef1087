"""`quorumd users`: list, add and remove SCRAM credentials."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.command_group import CommandGroup
from quorumd.cli.output import columns, print_json
from quorumd.security.sasl.scram import BY_NAME, MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses

_NAMES = {mechanism.type: mechanism.name for mechanism in MECHANISMS}
_mechanism = click.option(
    "--mechanism",
    type=click.Choice(list(BY_NAME)),
    default="SCRAM-SHA-512",
    show_default=True,
    help="Use this SCRAM mechanism.",
)


@click.group(cls=CommandGroup)
def users() -> None:
    """List, add and remove users that authenticate with SCRAM.

    \b
    Examples:
      quorumd users add alice --bootstrap-server 127.0.0.1:9192
      quorumd users list --bootstrap-server 127.0.0.1:9192
    """


def _read_password() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    password = sys.stdin.readline().rstrip("\n")
    if not password:
        raise click.UsageError(
            "no password; use --password, set QUORUMD_PASSWORD, or write the password to stdin"
        )
    return password


@users.command("list")
@options.bootstrap_server
@options.output
def list_command(servers: Addresses, output: str) -> None:
    """List the users with their mechanisms.

    \b
    Examples:
      quorumd users list --bootstrap-server 127.0.0.1:9192
      quorumd users list --bootstrap-server 127.0.0.1:9192 --output json
    """
    from quorumd.client.access import list_users

    rows = [
        {
            "user": each.user,
            "mechanism": _NAMES.get(info.mechanism, str(info.mechanism)),
            "iterations": info.iterations,
        }
        for each in run_admin(servers, list_users)
        for info in each.credential_infos
    ]
    if output == "json":
        print_json(rows)
    else:
        click.echo(columns(("user", "mechanism", "iterations"), [list(row.values()) for row in rows]))


@users.command()
@click.argument("user")
@_mechanism
@click.option(
    "--password",
    envvar="QUORUMD_PASSWORD",
    help="Set this password.  [default: QUORUMD_PASSWORD, or read from the terminal or the first line of stdin]",
)
@click.option(
    "--iterations",
    type=click.IntRange(MIN_ITERATIONS, MAX_ITERATIONS),
    default=MIN_ITERATIONS,
    show_default=True,
    help="Hash the password this many times.",
)
@options.bootstrap_server
@options.output
def add(
    user: str, mechanism: str, password: str | None, iterations: int, servers: Addresses, output: str
) -> None:
    """Add a user, or change the password of an existing one. The password is salted and hashed before it is sent.

    \b
    Examples:
      quorumd users add alice --bootstrap-server 127.0.0.1:9192
      QUORUMD_PASSWORD=secret quorumd users add alice --bootstrap-server 127.0.0.1:9192
    """
    from quorumd.client.access import set_password

    if password == "":
        raise click.UsageError("--password must not be empty: no client can log in with an empty password")
    secret = _read_password() if password is None else password
    run_admin(servers, lambda admin: set_password(admin, user, mechanism, secret, iterations))
    if output == "json":
        print_json({"user": user, "mechanism": mechanism, "iterations": iterations})
    else:
        click.echo(f"committed: user {user!r}, {mechanism}")


@users.command()
@click.argument("user")
@_mechanism
@options.bootstrap_server
@options.output
def remove(user: str, mechanism: str, servers: Addresses, output: str) -> None:
    """Remove a user's credential of one mechanism. Exit code 1 if there is none.

    \b
    Example:
      quorumd users remove alice --mechanism SCRAM-SHA-256 --bootstrap-server 127.0.0.1:9192
    """
    from quorumd.client.access import remove_password

    run_admin(servers, lambda admin: remove_password(admin, user, mechanism))
    if output == "json":
        print_json({"user": user, "mechanism": mechanism, "removed": True})
    else:
        click.echo(f"removed: user {user!r}, {mechanism}")
