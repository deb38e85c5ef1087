"""The health check of a container: `python -m quorumd.runtime.health_probe FILE` requests /healthz.

FILE is the properties file of the node. If the node is not healthy, the exit code is 1 and the reason is on stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from urllib.request import urlopen

from quorumd.config import load
from quorumd.errors import ConfigError

TIMEOUT_S = 2.0
PROBED_HOSTS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}
"""The address through which to reach a listener that is bound to all addresses."""


def problem(arguments: Sequence[str]) -> str | None:
    """Return why the node whose properties file is the argument is not healthy, None if it is."""
    try:
        (path,) = arguments
        address = load(path).metrics_listener
    except (ValueError, ConfigError) as error:
        return f"error: {error}"
    if address is None:
        return "error: metrics.listener is empty, so the node has no health check"
    host, port = address
    try:
        with urlopen(f"http://{PROBED_HOSTS.get(host, host)}:{port}/healthz", timeout=TIMEOUT_S):
            return None
    except OSError as error:
        return f"error: {error}"


if __name__ == "__main__":
    sys.exit(problem(sys.argv[1:]))
