"""`quorumd status`: table, problems and exit code from the nodes' responses."""

from __future__ import annotations

import json

import pytest

from quorumd.cli import status as status_module
from quorumd.cli.options import duration
from quorumd.cli.root import run
from quorumd.cli.status import is_healthy, json_row, problems, render, size
from quorumd.client.node_views import NodeView
from quorumd.protocol.messages.describe_node_response import DescribeNodeResponse, SilentPeer
from tests.support.text import cells, shows


def node(node_id: int, role: str = "follower", **changes: object) -> NodeView:
    description = DescribeNodeResponse(
        node_id=node_id,
        role=role,
        epoch=5,
        leader_id=1,
        is_voter=True,
        high_watermark=100,
        applied_offset=98,
        contact_ms=400,
        free_bytes=5 << 30,
        has_free_space=True,
        snapshot_end_offset=50,
        is_ready=True,
    )
    for name, value in changes.items():
        setattr(description, name, value)
    return NodeView(("10.0.0.1", 9190 + node_id), description)


WHOLE = [node(1, "leader"), node(2), node(3)]
LOST = NodeView(("10.0.0.1", 9193), None, "Connection refused", discovered_from=1)


def test_healthy_quorum() -> None:
    header, *rows = cells(render(WHOLE[:2]))
    row = dict(zip(header, rows[0], strict=True))
    assert (row["Node"], row["Address"], row["Role"], row["Epoch"]) == ("1", "10.0.0.1:9191", "leader", "5")
    assert (row["Leader"], row["Vote"], row["Ready"]) == ("1", "yes", "yes")
    assert (row["HighWatermark"], row["Applied"], row["Lag"]) == ("100", "98", "2")
    assert (row["Disk"], row["Snapshot"]) == ("5.0GiB", "50")
    assert [each[0] for each in rows] == ["1", "2"]
    assert is_healthy(WHOLE)


@pytest.mark.parametrize(
    ("contact_ms", "cell"), [(999, "1"), (2300, "1 (no contact for 2.3 s)"), (-1, "1 (no contact)")]
)
def test_stale_leader_contact_is_marked(contact_ms: int, cell: str) -> None:
    assert cell in render([node(2, contact_ms=contact_ms)]).splitlines()[1]
    assert "unheard" not in render([node(1, "leader", contact_ms=contact_ms)])


def test_problems_are_listed_below_table() -> None:
    silent = [SilentPeer(3, 34_000, "10.0.0.1:9193: Connection refused")]
    lost = node(
        2,
        "prospective",
        leader_id=-1,
        is_ready=False,
        not_ready_reasons=["no leader is known"],
        silent_peers=silent,
    )
    views = [lost, LOST]
    not_ready, unreachable, discovered = render(views).splitlines()[3:]
    assert shows(not_ready, "node 2 is not ready", "no leader")
    assert shows(unreachable, "node 2", "node 3", "34 s", "10.0.0.1:9193: Connection refused")
    assert shows(discovered, "10.0.0.1:9193", "node 1", "Connection refused")
    assert shows(lost.summary, "node 2", "10.0.0.1:9192", "prospective", "epoch 5", "no leader", "node 3")


@pytest.mark.parametrize(("silent_ms", "lines"), [(0, 0), (1_999, 0), (2_000, 1)])
def test_peer_that_was_not_probed_again_is_no_problem(silent_ms: int, lines: int) -> None:
    """As right after the start of a cluster, whose nodes begin to listen one after the other."""
    view = node(2, silent_peers=[SilentPeer(3, silent_ms, "10.0.0.1:9193: Connection refused")])
    assert len(list(problems([view]))) == lines
    assert json_row(view)["silentPeers"]


@pytest.mark.parametrize(
    ("views", "healthy"),
    [
        (WHOLE, True),
        ([*WHOLE[:2], LOST], False),
        ([*WHOLE[:2], node(3, is_ready=False)], False),
        ([*WHOLE[:2], node(3, leader_id=-1)], False),
        ([*WHOLE[:2], node(3, epoch=6)], False),
        ([*WHOLE[:2], NodeView(("k", 1), DescribeNodeResponse(epoch=5, leader_id=1), is_stock=True)], True),
    ],
)
def test_exit_code_reports_health(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], views: list[NodeView], healthy: bool
) -> None:
    request: list[float] = []

    def fetch_node_views(servers: object, timeout_ms: float) -> list[NodeView]:
        request.append(timeout_ms)
        return views

    monkeypatch.setattr(status_module, "fetch_node_views", fetch_node_views)
    arguments = ["status", "--bootstrap-server", "10.0.0.1:9191", "--timeout", "500ms"]
    assert run(arguments) == (0 if healthy else 1)
    assert run([*arguments, "--output", "json"]) == (0 if healthy else 1)
    assert '"nodeId": 1' in capsys.readouterr().out
    assert request == [500.0, 500.0]


def test_json_is_one_document(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(
        status_module, "fetch_node_views", lambda servers, timeout_ms: [node(1, "leader"), LOST]
    )
    run(["status", "--bootstrap-server", "10.0.0.1:9191", "--output", "json"])
    first, second = json.loads(capsys.readouterr().out)
    assert (first["nodeId"], first["lag"], first["ready"], first["votedId"]) == (1, 2, True, 0)
    assert (second["responds"], second["failure"], second["addressFromNode"]) == (
        False,
        "Connection refused",
        1,
    )


def test_sizes_and_durations() -> None:
    assert [size(count) for count in (0, 1023, 1536, 200 << 20, 3 << 40)] == [
        "0B", "1023B", "1.5KiB", "200MiB", "3.0TiB",
    ]  # fmt: skip
    assert [duration(text) for text in ("5s", "500ms", "2m", "1.5")] == [5.0, 0.5, 120.0, 1.5]
    assert run(["status", "--bootstrap-server", "10.0.0.1:9191", "--timeout", "0s"]) == 2
