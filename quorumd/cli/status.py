"""`quorumd status`: how every node sees the quorum, with a leader or without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from quorumd.cli import options
from quorumd.cli.output import columns, print_json

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.client.node_views import NodeView
    from quorumd.protocol.messages.describe_node_response import DescribeNodeResponse

COLUMNS = (
    *("Node", "Address", "Role", "Epoch", "Leader", "Vote", "HighWatermark", "Applied", "Lag"),
    *("Disk", "Snapshot", "Ready"),
)
UNHEARD_MS = 1000
"""Longer than a follower's fetch waits for records."""
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@click.command()
@options.bootstrap_server
@options.output
def status(servers: Addresses, output: str) -> None:
    """Show how each node sees the quorum; it needs no leader.

    Asks the nodes named, and those that they name, each by itself: --timeout bounds every one of them. Lag
    counts committed records that the node has not applied yet, Disk is the room left where its log is, Snapshot
    where its newest snapshot ends. Below the table: which nodes do not respond, what keeps a node from being ready,
    and which peers it gets no response from. Of Kafka's own controllers only epoch and leader are known.

    Exit code 0 if all nodes respond, are ready and name the same leader, else 1.

    \b
    Examples:
      quorumd status --bootstrap-server 10.0.0.1:9192,10.0.0.2:9192,10.0.0.3:9192
      quorumd status --bootstrap-server 10.0.0.1:9192 --timeout 1s --output json
    """
    views = ask_nodes(servers, options.timeout_s() * 1000)
    if output == "json":
        print_json([row_of(view) for view in views])
    else:
        click.echo(text_of(views))
    if not is_healthy(views):
        raise click.exceptions.Exit(1)


def ask_nodes(
    servers: Sequence[tuple[str, int]], timeout_ms: float, *, others: bool = True
) -> list[NodeView]:
    """The views of these nodes, and of the others that they name."""
    import asyncio

    from quorumd.client.node_views import node_views

    return asyncio.run(node_views(servers, timeout_ms, others=others))


def is_healthy(views: Sequence[NodeView]) -> bool:
    """Whether all nodes respond and are ready, and name the same leader; of a stock controller the leader counts."""
    leaders = {(view.seen.leader_id, view.seen.epoch) if view.seen is not None else None for view in views}
    if len(leaders) != 1 or None in leaders:
        return False
    return all(view.seen is not None and (view.is_stock or view.seen.is_ready) for view in views)


def row_of(view: NodeView) -> dict[str, Any]:
    """One node for scripts; what is not known is null."""
    seen = view.seen
    row: dict[str, Any] = {
        "address": view.name,
        "responds": seen is not None,
        "failure": view.failure or None,
    }
    row["addressFromNode"] = view.learned_from
    if seen is None:
        return row
    row |= {
        "epoch": seen.epoch,
        "leaderId": _known(seen.leader_id),
        "highWatermark": _known(seen.high_watermark),
    }
    row["kind"] = "kafka" if view.is_stock else "quorumd"
    if view.is_stock:
        return row
    return row | {
        "nodeId": seen.node_id,
        "directoryId": str(seen.directory_id),
        "clusterId": seen.cluster_id or None,
        "role": seen.role,
        "votedId": _known(seen.voted_id),
        "isVoter": seen.is_voter,
        "voterIds": list(seen.voter_ids),
        "logStartOffset": seen.log_start_offset,
        "logEndOffset": seen.log_end_offset,
        "appliedOffset": seen.applied_offset,
        "lag": _lag(view),
        "contactMs": _known(seen.contact_ms),
        "freeBytes": seen.free_bytes,
        "hasRoom": seen.has_room,
        "snapshotEndOffset": seen.snapshot_end_offset,
        "ready": seen.is_ready,
        "lacks": list(seen.lacks),
        "silentPeers": [
            {"nodeId": peer.node_id, "silentMs": peer.silent_ms, "reason": peer.reason}
            for peer in seen.silent_peers
        ],
    }


def text_of(views: Sequence[NodeView]) -> str:
    """The table, and below it what is wrong."""
    table = columns(COLUMNS, [_cells(view) for view in views])
    return "\n".join([table, *problems(views)])


def problems(views: Iterable[NodeView]) -> Iterator[str]:
    """A line each: who does not respond, who is not ready and why, who gets no response from whom."""
    for view in views:
        seen = view.seen
        if seen is None:
            source = "" if view.learned_from is None else f", an address that node {view.learned_from} names,"
            yield f"{view.name}{source} does not respond: {view.failure}"
        elif not view.is_stock:
            for lack in seen.lacks:
                yield f"node {seen.node_id} is not ready: {lack}"
            if not seen.has_room:
                yield f"node {seen.node_id} has a full disk: make room; nothing that was acknowledged is lost"
            for peer in seen.silent_peers:
                yield (
                    f"node {seen.node_id} has no response from node {peer.node_id} for "
                    f"{peer.silent_ms / 1000:,.0f} s ({peer.reason})"
                )


def _cells(view: NodeView) -> list[object]:
    seen = view.seen
    if seen is None:
        return ["-", view.name, "no response", *["-"] * (len(COLUMNS) - 4), "no"]
    high_watermark = _shown(seen.high_watermark)
    if view.is_stock:
        return ["-", view.name, "kafka", seen.epoch, _shown(seen.leader_id), "-", high_watermark, *["-"] * 5]
    return [
        seen.node_id,
        view.name,
        seen.role,
        seen.epoch,
        _leader(seen),
        "yes" if seen.is_voter else "no",
        high_watermark,
        seen.applied_offset,
        _shown(_lag(view)),
        size(seen.free_bytes) if seen.has_room else "full",
        seen.snapshot_end_offset or "-",
        "yes" if seen.is_ready else "no",
    ]


def _leader(seen: DescribeNodeResponse) -> object:
    """Whom a node takes for the leader, and since when it has not heard of it: that one may be gone."""
    if seen.leader_id in (-1, seen.node_id) or 0 <= seen.contact_ms < UNHEARD_MS:
        return _shown(seen.leader_id)
    silence = f" for {seen.contact_ms / 1000:,.1f} s" if seen.contact_ms > 0 else ""
    return f"{seen.leader_id} (unheard{silence})"


def _lag(view: NodeView) -> int | None:
    seen = view.seen
    if seen is None or seen.high_watermark < 0:
        return None
    return max(0, seen.high_watermark - seen.applied_offset)


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _shown(number: int | None) -> object:
    return "-" if number is None or number < 0 else number


def size(count: int) -> str:
    """Bytes for people: `3.5GiB`."""
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f}{UNITS[unit]}" if amount >= 100 or unit == 0 else f"{amount:.1f}{UNITS[unit]}"
