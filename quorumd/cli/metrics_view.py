"""One node's view of the quorum, read from its metrics endpoint; works for every role and without a leader."""

from __future__ import annotations

import re
from dataclasses import dataclass

FETCH_TIMEOUT_S = 1.0
PREFIX = "quorumd_raft_"
STATE = "current_state"
NUMBERS = ("current_leader", "current_epoch", "high_watermark", "log_end_offset")
"""Metrics without labels, in the order of MetricsView's fields after `role`."""

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MetricsView:
    """The view of one node. `role` is leader, follower, candidate, ...; unknown numbers are -1."""

    role: str
    leader: int
    epoch: int
    high_watermark: int
    log_end_offset: int


def fetch(host: str, metrics_port: int) -> MetricsView | None:
    """The view of the node that serves metrics there; None if there is no valid response within FETCH_TIMEOUT_S."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(host, metrics_port, timeout=FETCH_TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        return parse(connection.getresponse().read().decode("utf-8", "replace"))
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def is_ready(host: str, metrics_port: int) -> bool:
    """Whether the node that serves metrics there is ready: in a quorum, and its broker, if any, serves clients."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(host, metrics_port, timeout=FETCH_TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def parse(text: str) -> MetricsView | None:
    """The view in a Prometheus text; None if the text is not a quorumd node's."""
    values: dict[str, int] = {}
    role = ""
    for name, labels, value in _SAMPLE.findall(text):
        if name == PREFIX + STATE and float(value) == 1:
            role = re.sub(r'.*state="([^"]*)".*', r"\1", labels)
        elif not labels and name.startswith(PREFIX):
            values[name.removeprefix(PREFIX)] = int(float(value))
    if not role:
        return None
    leader, epoch, high_watermark, log_end_offset = (values.get(name, -1) for name in NUMBERS)
    return MetricsView(role, leader, epoch, high_watermark, log_end_offset)
