"""A node's view of the quorum, parsed from its metrics."""

from __future__ import annotations

import socket
import threading

import pytest

from quorumd.cli.metrics_view import NUMBERS, PREFIX, STATE, MetricsView, fetch, parse
from quorumd.observability.metrics import METRICS

TEXT = """\
# HELP quorumd_raft_current_state 1 for the state this node is in, 0 for all others.
# TYPE quorumd_raft_current_state gauge
quorumd_raft_current_state{state="leader"} 0.0
quorumd_raft_current_state{state="follower"} 1.0
quorumd_raft_current_leader 2.0
quorumd_raft_current_epoch 7.0
quorumd_raft_high_watermark 1.234567e+06
quorumd_raft_log_end_offset 1234570.0
quorumd_requests_total{api="Fetch"} 9.0
"""


def test_metrics_in_view_are_served() -> None:
    served = {metric.exposed_name for metric in METRICS}
    assert {PREFIX + name for name in (STATE, *NUMBERS)} <= served


def test_view_has_role_and_numbers() -> None:
    assert parse(TEXT) == MetricsView("follower", 2, 7, 1234567, 1234570)


def test_missing_metrics_are_unknown() -> None:
    assert parse('quorumd_raft_current_state{state="candidate"} 1.0\n') == MetricsView(
        "candidate", -1, -1, -1, -1
    )


@pytest.mark.parametrize("text", ["", "hello", "other_metric 1.0\n"])
def test_foreign_metrics_are_ignored(text: str) -> None:
    assert parse(text) is None


def test_unreachable_and_silent_nodes_have_no_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorumd.cli.metrics_view.FETCH_TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert fetch("127.0.0.1", silent.getsockname()[1]) is None
        port = silent.getsockname()[1]
    assert fetch("127.0.0.1", port) is None


def test_view_is_fetched_from_responding_node() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        requests: list[bytes] = []

        def serve() -> None:
            with server.accept()[0] as connection:
                requests.append(connection.recv(4096))
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + TEXT.encode())

        thread = threading.Thread(target=serve)
        thread.start()
        view = fetch("127.0.0.1", server.getsockname()[1])
        thread.join()
    assert view == MetricsView("follower", 2, 7, 1234567, 1234570)
    assert requests[0].startswith(b"GET /metrics ")
