"""`quorumd tokens`: list, create, renew and expire delegation tokens."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.command_group import CommandGroup
from quorumd.cli.output import columns, fields, print_json

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses


def _time(unix_ms: int) -> str:
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat(timespec="seconds")


def _principal(text: str) -> str:
    """`Type:Name`. A click parameter type."""
    kind, colon, name = text.partition(":")
    if not kind or not colon or not name:
        raise click.BadParameter(f"{text!r} is not a principal such as User:alice")
    return text


def _hmac(text: str) -> bytes:
    """An HMAC in base64. A click parameter type."""
    try:
        return b64decode(text, validate=True)
    except (Error, ValueError):
        raise click.BadParameter(
            "the HMAC is not valid base64; use the one that `quorumd tokens create` printed"
        ) from None


_token = click.argument("hmac", type=_hmac)


@click.group(cls=CommandGroup)
def tokens() -> None:
    """List, create, renew and expire delegation tokens.

    \b
    Examples:
      quorumd tokens create --renewer User:bob --bootstrap-server 127.0.0.1:9192 \\
        --command-config admin.properties
      quorumd tokens list --bootstrap-server 127.0.0.1:9192 --command-config admin.properties
    """


@tokens.command("list")
@options.bootstrap_server
@options.output
def list_command(servers: Addresses, output: str) -> None:
    """List the tokens that you own, may renew, or may describe.

    \b
    Example:
      quorumd tokens list --bootstrap-server 127.0.0.1:9192 --command-config admin.properties
    """
    from quorumd.client.access import list_tokens

    found = [
        (
            token.token_id,
            f"{token.principal_type}:{token.principal_name}",
            [f"{each.principal_type}:{each.principal_name}" for each in token.renewers],
            _time(token.expiry_timestamp),
            _time(token.max_timestamp),
        )
        for token in run_admin(servers, list_tokens)
    ]
    if output == "json":
        names = ("tokenId", "owner", "renewers", "expires", "renewableUntil")
        print_json([dict(zip(names, row, strict=True)) for row in found])
    else:
        rows = [(id, owner, ",".join(renewers), expires, end) for id, owner, renewers, expires, end in found]
        click.echo(columns(("tokenId", "owner", "renewers", "expires", "renewableUntil"), rows))


@tokens.command()
@click.option(
    "--owner",
    type=_principal,
    metavar="PRINCIPAL",
    help="Create the token for this principal, such as User:alice.  [default: yourself]",
)
@click.option(
    "--renewer",
    "renewers",
    type=_principal,
    metavar="PRINCIPAL",
    multiple=True,
    help="Let this principal renew the token; may be repeated.",
)
@click.option(
    "--max-lifetime",
    "max_lifetime_ms",
    type=options.duration_ms,
    metavar="DURATION",
    help="Allow renewal until the token is this old: 7d, 12h.  [default: the cluster's]",
)
@options.bootstrap_server
@options.output
def create(
    owner: str | None,
    renewers: tuple[str, ...],
    max_lifetime_ms: float | None,
    servers: Addresses,
    output: str,
) -> None:
    """Create a token and print its id and HMAC, the user name and password of clients that use it with SCRAM.

    \b
    Example:
      quorumd tokens create --renewer User:bob --bootstrap-server 127.0.0.1:9192 \\
        --command-config admin.properties
    """
    from quorumd.client.access import create_delegation_token

    lifetime_ms = _milliseconds(max_lifetime_ms)
    token = run_admin(servers, lambda admin: create_delegation_token(admin, owner, renewers, lifetime_ms))
    shown = {
        "tokenId": token.token_id,
        "hmac": b64encode(token.hmac).decode(),
        "owner": f"{token.principal_type}:{token.principal_name}",
        "expires": _time(token.expiry_timestamp_ms),
        "renewableUntil": _time(token.max_timestamp_ms),
    }
    if output == "json":
        print_json(shown)
    else:
        click.echo(fields(shown.items()))


@tokens.command()
@_token
@click.option(
    "--renew-period",
    "period_ms",
    type=options.duration_ms,
    metavar="DURATION",
    help="Let the token expire this long from now: 12h, 1d.  [default: the cluster's]",
)
@options.bootstrap_server
@options.output
def renew(hmac: bytes, period_ms: float | None, servers: Addresses, output: str) -> None:
    """Renew a token, given by its HMAC in base64.

    \b
    Example:
      quorumd tokens renew HMAC --renew-period 12h --bootstrap-server 127.0.0.1:9192 \\
        --command-config admin.properties
    """
    from quorumd.client.access import renew_token

    _show_expiry(run_admin(servers, lambda admin: renew_token(admin, hmac, _milliseconds(period_ms))), output)


@tokens.command()
@_token
@click.option(
    "--expiry-period",
    "period_ms",
    type=options.duration_ms,
    metavar="DURATION",
    help="Let the token expire this long from now: 30m, 12h.  [default: immediately]",
)
@options.bootstrap_server
@options.output
def expire(hmac: bytes, period_ms: float | None, servers: Addresses, output: str) -> None:
    """Set the expiry of a token, given by its HMAC in base64.

    \b
    Example:
      quorumd tokens expire HMAC --bootstrap-server 127.0.0.1:9192 --command-config admin.properties
    """
    from quorumd.client.access import expire_token

    _show_expiry(
        run_admin(servers, lambda admin: expire_token(admin, hmac, _milliseconds(period_ms))), output
    )


def _milliseconds(period_ms: float | None) -> int:
    """The period of an option in milliseconds, -1 for the default."""
    return -1 if period_ms is None else int(period_ms)


def _show_expiry(unix_ms: int, output: str) -> None:
    if output == "json":
        print_json({"expires": _time(unix_ms)})
    else:
        click.echo(f"expires: {_time(unix_ms)}")
