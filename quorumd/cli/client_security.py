"""--command-config: the security of a command's connections, from Kafka's client properties."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from quorumd.client.security import ClientSecurity

COMMAND_CONFIG_VARIABLE = "QUORUMD_COMMAND_CONFIG"
"""The environment variable that supplies --command-config if the command line does not."""


def client_security(path: Path) -> ClientSecurity:
    """The security that a client's properties file describes. Raises ConfigError, and RequestFailed if there is no
    token."""
    from quorumd.client.oauth import TokenSource
    from quorumd.client.security import ClientSecurity, fetch_token
    from quorumd.client.tls import build_contexts
    from quorumd.config.client import load_client
    from quorumd.security.sasl.settings import ClientSasl

    loaded = load_client(str(path), dict(os.environ))
    context = build_contexts(loaded.tls).client if loaded.tls is not None else None
    if loaded.login is None:
        return ClientSecurity(context)
    mechanism, jaas, token_url = loaded.login
    options = jaas.options
    login = ClientSasl(
        mechanism,
        options.get("username", ""),
        options.get("password", ""),
        jaas.is_token,
        TokenSource(token_url, options) if token_url else None,
    )
    fetch_token(login)
    return ClientSecurity(context, login)


def use_client_security(context: click.Context, parameter: click.Parameter | None, path: Path | None) -> None:
    """Have all connections of the running command use the file; a callback of click."""
    del parameter
    if path is not None:
        from quorumd.client.security import CLIENT_SECURITY

        before = CLIENT_SECURITY.set(client_security(path))
        context.call_on_close(lambda: CLIENT_SECURITY.reset(before))
