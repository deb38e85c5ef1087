"""--command-config: the security of a command's connections, from Kafka's client properties."""

from __future__ import annotations

import os
from pathlib import Path

import click

COMMAND_CONFIG_VARIABLE = "QUORUMD_COMMAND_CONFIG"
"""The environment variable that supplies --command-config if the command line does not."""


def use_client_security(
    context: click.Context, parameter: click.Parameter | None, path: Path | None
) -> Path | None:
    """Use the file for all connections of the running command; a click callback."""
    del parameter
    if path is not None:
        from quorumd.client.security import CLIENT_SECURITY, client_security
        from quorumd.config.client import load_client

        before = CLIENT_SECURITY.set(client_security(*load_client(str(path), os.environ)))
        context.call_on_close(lambda: CLIENT_SECURITY.reset(before))
    return path
