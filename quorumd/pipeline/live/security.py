"""The security of connections to a live cluster: Kafka's client properties, read where the connection is opened."""

from __future__ import annotations

import os

from quorumd.client.security import PLAIN, ClientSecurity, client_security


def read_security(path: str) -> ClientSecurity:
    """Read a client's properties file; without one the connection is in plain text. Raises ConfigError, and
    RequestFailed if there is no token."""
    if not path:
        return PLAIN
    from quorumd.config.client import load_client

    return client_security(*load_client(path, os.environ))
