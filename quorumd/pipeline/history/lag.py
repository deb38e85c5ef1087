"""How far each node is: rows of schemas.LAG, as a leader says it or as folders show it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from quorumd.ids import NO_NODE
from quorumd.pipeline.log_files import parse_folders

Row = dict[str, Any]


def lag_rows(source: Mapping[str, str], as_of: datetime, end: int) -> list[Row]:
    """A row for each node. Of folders: only once the history is at the `end` of the log, as of its last record.

    Raises RequestFailed where a live cluster does not answer.
    """
    if "path" in source:
        return _of_folders(source["path"], as_of, end)
    return asyncio.run(_of_cluster(source["bootstrap"]))


def _of_folders(path: str, as_of: datetime, end: int) -> list[Row]:
    from quorumd.pipeline.source.followed import FollowedFolders

    copies = FollowedFolders(parse_folders(path))
    farthest = copies.look()
    if farthest.offset > end:
        return []
    rows = []
    for node, copy in copies.copies.items():
        reached = copy.look(copy.files)
        rows.append(_row(as_of, node, "folder", reached.offset, farthest.offset - reached.offset))
    return rows


async def _of_cluster(bootstrap: str) -> list[Row]:
    from quorumd.client.admin import AdminClient
    from quorumd.pipeline.source.options import parse_bootstrap

    async with AdminClient(parse_bootstrap(bootstrap)) as admin:
        quorum = await admin.describe_quorum()
    now = datetime.now(UTC)
    voters, observers = quorum.current_voters, quorum.observers
    end = max((each.log_end_offset for each in voters if each.replica_id == quorum.leader_id), default=0)
    rows = []
    for replica in [*voters, *observers]:
        role = "voter" if replica in voters else "observer"
        if replica.replica_id == quorum.leader_id != NO_NODE:
            role = "leader"
        lag = max(0, end - replica.log_end_offset)
        row = _row(now, replica.replica_id, role, replica.log_end_offset, lag)
        row["high_watermark"] = quorum.high_watermark
        row["directory_id"] = bytes(replica.replica_directory_id)
        row["last_fetch_ts"] = _time(replica.last_fetch_timestamp)
        row["last_caught_up_ts"] = _time(replica.last_caught_up_timestamp)
        rows.append(row)
    return rows


def _row(ts: datetime, node: int, role: str, end: int, lag: int) -> Row:
    return {
        "ts": ts,
        "node_id": node,
        "role": role,
        "directory_id": None,
        "log_end_offset": end,
        "high_watermark": None,
        "lag": lag,
        "last_fetch_ts": None,
        "last_caught_up_ts": None,
    }


def _time(timestamp_ms: int) -> datetime | None:
    """None for what is not known: -1."""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC) if timestamp_ms >= 0 else None
