"""`quorumd quorum describe`: who leads, how far the log is committed, how far each replica is behind (KIP-595
draft)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.output import columns, fields, print_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quorumd.cli.options import Addresses
    from quorumd.client.admin import AdminClient
    from quorumd.protocol.messages.describe_quorum_response import Node, PartitionData, ReplicaState

REPLICATION_COLUMNS = (
    *(
        "ReplicaId",
        "DirectoryId",
        "LogEndOffset",
        "Lag",
        "LagTimeMs",
        "LastFetchMs",
        "LastCaughtUpMs",
        "Status",
    ),
    *("IsReassignTarget", "Endpoints"),
)


@click.command()
@click.argument("what", type=click.Choice(["status", "replication"]), default="status")
@options.bootstrap_server
@options.output
def describe(what: str, servers: Addresses, output: str) -> None:
    """Show the quorum as its leader sees it; any node can be asked.

    status: the leader, its epoch, the high watermark, and the largest lag of a voter. replication: a line
    for each replica; one that is to become a voter is told also before it was heard of. Lag counts records,
    LagTimeMs how long ago a replica had all that the leader has now; LastFetchMs and LastCaughtUpMs how long
    ago it fetched and was last seen to have all; -1 is unknown. A voter is a node and its directory id: after its
    disk was replaced a node is there twice. Endpoints of voters are those of the voters' record.

    \b
    Examples:
      quorumd quorum describe --bootstrap-server 127.0.0.1:9192
      quorumd quorum describe replication --bootstrap-server 127.0.0.1:9192 --output json
    """

    async def question(admin: AdminClient) -> tuple[PartitionData, list[Node]]:
        return await admin.describe_replicas()

    described, nodes = run_admin(servers, question)
    if what == "status":
        status = status_of(described)
        print_json(status) if output == "json" else click.echo(status_text(status))
    else:
        rows = replication_of(described, endpoints_of(nodes))
        print_json(rows) if output == "json" else click.echo(replication_text(rows))


def voter_ids(quorum: PartitionData) -> list[int]:
    """Who votes now."""
    return [voter.replica_id for voter in quorum.current_voters]


def target_ids(quorum: PartitionData) -> list[int]:
    """Who shall vote when the change under way is done; empty where there is none."""
    return [target.voter_id for target in quorum.target_voters or ()]


def status_of(quorum: PartitionData) -> dict[str, Any]:
    """The draft's status. Followers are the voters besides the leader."""
    followers = [row for row in replication_of(quorum) if row["status"] == "Follower"]
    times = [row["lagTimeMs"] for row in followers]
    return {
        "leaderId": quorum.leader_id,
        "leaderEpoch": quorum.leader_epoch,
        "highWatermark": quorum.high_watermark,
        "maxFollowerLag": max((row["lag"] for row in followers), default=0),
        "maxFollowerLagTimeMs": -1 if -1 in times else max(times, default=0),
        "currentVoters": voter_ids(quorum),
        "targetVoters": target_ids(quorum),
    }


def endpoints_of(nodes: Iterable[Node]) -> dict[int, list[str]]:
    """Where each voter listens, by id."""
    return {
        node.node_id: [f"{listener.name}://{listener.host}:{listener.port}" for listener in node.listeners]
        for node in nodes
    }


def replication_of(
    quorum: PartitionData, endpoints: Mapping[int, list[str]] | None = None
) -> list[dict[str, Any]]:
    """The draft's replication rows: leader, followers, observers; among these who is to vote and was not heard of.

    A leader that is leaving is no voter any more and has no row.
    """
    from quorumd.protocol.messages.describe_quorum_response import ReplicaState

    leaders = [voter for voter in quorum.current_voters if voter.replica_id == quorum.leader_id]
    followers = [voter for voter in quorum.current_voters if voter.replica_id != quorum.leader_id]
    known_ids = {replica.replica_id for replica in [*quorum.current_voters, *quorum.observers]}
    targets = target_ids(quorum)
    unknown_targets = [
        ReplicaState(target, log_end_offset=-1) for target in targets if target not in known_ids
    ]
    groups = (
        ("Leader", leaders),
        ("Follower", followers),
        ("Observer", [*quorum.observers, *unknown_targets]),
    )
    end_offset = max((replica.log_end_offset for replica in leaders or followers), default=0)
    return [
        {
            "replicaId": replica.replica_id,
            "directoryId": str(replica.replica_directory_id),
            "logEndOffset": replica.log_end_offset,
            # A replica that has not fetched yet (-1) lacks everything, as far as the leader knows.
            "lag": end_offset - max(0, replica.log_end_offset),
            "lagTimeMs": _lag_time_ms(leaders, replica),
            "lastFetchMs": _ms_ago(leaders, replica, replica.last_fetch_timestamp),
            "lastCaughtUpMs": _ms_ago(leaders, replica, replica.last_caught_up_timestamp),
            "status": status,
            "isReassignTarget": replica.replica_id in targets,
            "endpoints": (endpoints or {}).get(replica.replica_id, []) if status != "Observer" else [],
        }
        for status, replicas in groups
        for replica in replicas
    ]


def _lag_time_ms(leaders: list[ReplicaState], replica: ReplicaState) -> int:
    """Both timestamps are the leader's clock; the leader's own is the time of its answer."""
    if replica in leaders:
        return 0
    if not leaders or replica.last_caught_up_timestamp < 0 or leaders[0].last_caught_up_timestamp < 0:
        return -1
    return max(0, leaders[0].last_caught_up_timestamp - replica.last_caught_up_timestamp)


def _ms_ago(leaders: list[ReplicaState], replica: ReplicaState, timestamp: int) -> int:
    """How long before the leader's response; both times are the leader's clock."""
    if replica in leaders:
        return 0
    if not leaders or timestamp < 0 or leaders[0].last_fetch_timestamp < 0:
        return -1
    return max(0, leaders[0].last_fetch_timestamp - timestamp)


def status_text(status: dict[str, Any]) -> str:
    """The draft's lines."""
    return fields(status.items())


def replication_text(rows: list[dict[str, Any]]) -> str:
    """The draft's columns."""
    cells = [
        (
            row["replicaId"],
            row["directoryId"],
            row["logEndOffset"],
            row["lag"],
            row["lagTimeMs"],
            row["lastFetchMs"],
            row["lastCaughtUpMs"],
            row["status"],
            "Yes" if row["isReassignTarget"] else "No",
            ",".join(row["endpoints"]) or "-",
        )
        for row in rows
    ]
    return columns(REPLICATION_COLUMNS, cells)
