"""How one node sees the quorum, read from its metrics endpoint: works for every role, also without a
leader.
"""

from __future__ import annotations

import http.client
import re
from dataclasses import dataclass

ASK_TIMEOUT_S = 1.0

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NodeView:
    """`role` is leader, follower, candidate, ...; unknown numbers are -1."""

    role: str
    leader: int
    epoch: int
    high_watermark: int
    log_end_offset: int


def ask(host: str, metrics_port: int) -> NodeView | None:
    """The view of the node that serves metrics there, or None if nothing useful answers within a second."""
    connection = http.client.HTTPConnection(host, metrics_port, timeout=ASK_TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        return parse(connection.getresponse().read().decode("utf-8", "replace"))
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def parse(text: str) -> NodeView | None:
    """The view in a Prometheus text, None if it is not a quorumd node's."""
    values: dict[str, float] = {}
    role = ""
    for name, labels, value in _SAMPLE.findall(text):
        if name == "quorumd_current_state" and float(value) == 1:
            role = re.sub(r'.*state="([^"]*)".*', r"\1", labels)
        elif not labels:
            values[name] = float(value)
    if not role:
        return None

    def number(name: str) -> int:
        return int(values.get(f"quorumd_{name}", -1))

    return NodeView(
        role,
        number("current_leader"),
        number("current_epoch"),
        number("high_watermark"),
        number("log_end_offset"),
    )
