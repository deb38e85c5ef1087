"""`quorumd status`: every node's view of the quorum, with or without a leader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.output import JsonObject, columns, print_json

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.client.node_views import NodeView
    from quorumd.protocol.messages.describe_node_response import DescribeNodeResponse

COLUMNS = (
    "Node",
    "Address",
    "Role",
    "Epoch",
    "Leader",
    "Vote",
    "HighWatermark",
    "Applied",
    "Lag",
    "Disk",
    "Snapshot",
    "Ready",
)
STALE_LEADER_MS = 1000
"""Longer than a follower's fetch can wait for records."""
SILENT_PEER_MS = 2000
"""A node probes a peer without a response once per second: one that is silent for longer has missed a probe, too. A
shorter silence is usually a first request to a peer that was still starting."""
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@click.command()
@options.bootstrap_server
@options.output
def status(servers: Addresses, output: str) -> None:
    """Show how each node sees the quorum, even without a leader.

    The request goes to the given nodes and to the nodes that they report, separately; --timeout applies to each.
    Lag counts committed records that the node has not applied yet, Disk is the free space of its log's disk, and
    Snapshot is the end offset of its newest snapshot. Below the table: nodes that do not respond, the reasons why a
    node is not ready, and peers that have not responded to it for 2 s. Kafka's own controllers report only epoch and
    leader.

    Exit code 0 if all nodes respond, are ready and report the same leader, otherwise 1.

    \b
    Examples:
      quorumd status --bootstrap-server 10.0.0.1:9192,10.0.0.2:9192,10.0.0.3:9192
      quorumd status --bootstrap-server 10.0.0.1:9192 --timeout 1s --output json
    """
    views = fetch_node_views(servers, options.timeout_s() * 1000)
    if output == "json":
        print_json([json_row(view) for view in views])
    else:
        click.echo(render(views))
    if not is_healthy(views):
        raise click.exceptions.Exit(1)


def fetch_node_views(
    servers: Sequence[tuple[str, int]], timeout_ms: float, *, others: bool = True
) -> list[NodeView]:
    """The views of these nodes and, with `others`, of the nodes that they report."""
    import asyncio

    from quorumd.client.node_views import node_views

    return asyncio.run(node_views(servers, timeout_ms, others=others))


def is_healthy(views: Sequence[NodeView]) -> bool:
    """Whether all nodes respond, are ready and report the same leader; stock controllers report no readiness."""
    leaders = {
        (view.description.leader_id, view.description.epoch) if view.description is not None else None
        for view in views
    }
    if len(leaders) != 1 or None in leaders:
        return False
    return all(
        view.description is not None and (view.is_stock or view.description.is_ready) for view in views
    )


def json_row(view: NodeView) -> JsonObject:
    """One node in `--output json`; unknown values are null."""
    description = view.description
    row: JsonObject = {
        "address": view.name,
        "responds": description is not None,
        "failure": view.failure or None,
    }
    row["addressFromNode"] = view.discovered_from
    if description is None:
        return row
    row |= {
        "epoch": description.epoch,
        "leaderId": _known(description.leader_id),
        "highWatermark": _known(description.high_watermark),
    }
    row["kind"] = "kafka" if view.is_stock else "quorumd"
    if view.is_stock:
        return row
    return row | {
        "nodeId": description.node_id,
        "directoryId": str(description.directory_id),
        "clusterId": description.cluster_id or None,
        "role": description.role,
        "votedId": _known(description.voted_id),
        "isVoter": description.is_voter,
        "voterIds": list(description.voter_ids),
        "logStartOffset": description.log_start_offset,
        "logEndOffset": description.log_end_offset,
        "appliedOffset": description.applied_offset,
        "lag": _lag(view),
        "contactMs": _known(description.contact_ms),
        "freeBytes": description.free_bytes,
        "hasRoom": description.has_free_space,
        "snapshotEndOffset": description.snapshot_end_offset,
        "ready": description.is_ready,
        "lacks": list(description.not_ready_reasons),
        "silentPeers": [
            {"nodeId": peer.node_id, "silentMs": peer.silent_ms, "reason": peer.reason}
            for peer in description.silent_peers
        ],
    }


def render(views: Sequence[NodeView]) -> str:
    """The table, followed by the problems."""
    table = columns(COLUMNS, [_cells(view) for view in views])
    return "\n".join([table, *problems(views)])


def problems(views: Iterable[NodeView]) -> Iterator[str]:
    """Yield one line per problem: nodes that do not respond or are not ready, and peers silent for SILENT_PEER_MS."""
    for view in views:
        description = view.description
        if description is None:
            source = (
                ""
                if view.discovered_from is None
                else f", an address reported by node {view.discovered_from},"
            )
            yield f"{view.name}{source} does not respond: {view.failure}"
        elif not view.is_stock:
            for reason in description.not_ready_reasons:
                yield f"node {description.node_id} is not ready: {reason}"
            if not description.has_free_space:
                yield f"node {description.node_id} has a full disk: free space; no acknowledged data is lost"
            for peer in description.silent_peers:
                if peer.silent_ms >= SILENT_PEER_MS:
                    yield (
                        f"node {description.node_id} has no response from node {peer.node_id} for "
                        f"{peer.silent_ms / 1000:,.0f} s ({peer.reason})"
                    )


def _cells(view: NodeView) -> list[object]:
    description = view.description
    if description is None:
        return ["-", view.name, "no response", *["-"] * (len(COLUMNS) - 4), "no"]
    high_watermark = _shown(description.high_watermark)
    if view.is_stock:
        return [
            "-",
            view.name,
            "kafka",
            description.epoch,
            _shown(description.leader_id),
            "-",
            high_watermark,
            *["-"] * 5,
        ]
    return [
        description.node_id,
        view.name,
        description.role,
        description.epoch,
        _leader(description),
        "yes" if description.is_voter else "no",
        high_watermark,
        description.applied_offset,
        _shown(_lag(view)),
        size(description.free_bytes) if description.has_free_space else "full",
        description.snapshot_end_offset or "-",
        "yes" if description.is_ready else "no",
    ]


def _leader(description: DescribeNodeResponse) -> object:
    """The leader that a node reports; if the last contact was too long ago, with the time since then."""
    if description.leader_id in (-1, description.node_id) or 0 <= description.contact_ms < STALE_LEADER_MS:
        return _shown(description.leader_id)
    silence = f" for {description.contact_ms / 1000:,.1f} s" if description.contact_ms > 0 else ""
    return f"{description.leader_id} (no contact{silence})"


def _lag(view: NodeView) -> int | None:
    description = view.description
    if description is None or description.high_watermark < 0:
        return None
    return max(0, description.high_watermark - description.applied_offset)


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _shown(number: int | None) -> object:
    return "-" if number is None or number < 0 else number


def size(count: int) -> str:
    """A number of bytes as text: `3.5GiB`."""
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f}{UNITS[unit]}" if amount >= 100 or unit == 0 else f"{amount:.1f}{UNITS[unit]}"
