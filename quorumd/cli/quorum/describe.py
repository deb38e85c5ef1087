"""`quorumd quorum describe`: the leader, the high watermark and the lag of each replica (KIP-595 draft)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.output import JsonObject, columns, fields, print_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quorumd.cli.options import Addresses
    from quorumd.client.admin import AdminClient
    from quorumd.protocol.messages.describe_quorum_response import Node, PartitionData, ReplicaState

REPLICATION_COLUMNS = (
    "ReplicaId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LagTimeMs",
    "LastFetchMs",
    "LastCaughtUpMs",
    "Status",
    "IsReassignTarget",
    "Endpoints",
)


@click.command()
@click.argument("what", type=click.Choice(["status", "replication"]), default="status")
@options.bootstrap_server
@options.output
def describe(what: str, servers: Addresses, output: str) -> None:
    """Describe the quorum as its leader sees it; any node can be contacted.

    status: the leader, its epoch, the high watermark and the largest lag of a voter. replication: one line per
    replica, including target voters that have not fetched yet. Lag counts records. LagTimeMs is the age of the
    replica's log relative to the leader's; LastFetchMs and LastCaughtUpMs are the times since its last fetch and
    since it was last caught up; -1 means unknown. A voter is identified by node and directory id: a node with a
    replaced disk is listed twice. The endpoints of voters are taken from the voters record.

    \b
    Examples:
      quorumd quorum describe --bootstrap-server 127.0.0.1:9192
      quorumd quorum describe replication --bootstrap-server 127.0.0.1:9192 --output json
    """

    async def describe_replicas(admin: AdminClient) -> tuple[PartitionData, list[Node]]:
        return await admin.describe_replicas()

    described, nodes = run_admin(servers, describe_replicas)
    if what == "status":
        status = status_of(described)
        print_json(status) if output == "json" else click.echo(status_text(status))
    else:
        rows = replication_of(described, endpoints_of(nodes))
        print_json(rows) if output == "json" else click.echo(replication_text(rows))


def voter_ids(quorum: PartitionData) -> list[int]:
    """The ids of the current voters."""
    return [voter.replica_id for voter in quorum.current_voters]


def target_ids(quorum: PartitionData) -> list[int]:
    """The ids of the target voters; empty if no change is in progress."""
    return [target.voter_id for target in quorum.target_voters or ()]


def status_of(quorum: PartitionData) -> JsonObject:
    """The status as in the KIP-595 draft. Followers are the voters other than the leader."""
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
    """The endpoints of each voter, by id."""
    return {
        node.node_id: [f"{listener.name}://{listener.host}:{listener.port}" for listener in node.listeners]
        for node in nodes
    }


def replication_of(
    quorum: PartitionData, endpoints: Mapping[int, list[str]] | None = None
) -> list[JsonObject]:
    """The replication rows as in the KIP-595 draft: leader, followers, observers and unknown target voters.

    A leader that is no longer a voter has no row.
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
            # -1: the replica has not fetched yet, so the leader assumes an empty log.
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
    """The lag time. Both timestamps are the leader's clock; the leader's own is the time of its response."""
    if replica in leaders:
        return 0
    if not leaders or replica.last_caught_up_timestamp < 0 or leaders[0].last_caught_up_timestamp < 0:
        return -1
    return max(0, leaders[0].last_caught_up_timestamp - replica.last_caught_up_timestamp)


def _ms_ago(leaders: list[ReplicaState], replica: ReplicaState, timestamp: int) -> int:
    """The time from `timestamp` to the leader's response, both on the leader's clock."""
    if replica in leaders:
        return 0
    if not leaders or timestamp < 0 or leaders[0].last_fetch_timestamp < 0:
        return -1
    return max(0, leaders[0].last_fetch_timestamp - timestamp)


def status_text(status: JsonObject) -> str:
    """The status as text, with the draft's fields."""
    return fields(status.items())


def replication_text(rows: list[JsonObject]) -> str:
    """The replication rows as a table, with the draft's columns."""
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
