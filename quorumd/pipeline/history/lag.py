"""The lag of each node: rows of schemas.LAG, from the leader's response or from the copies in directories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from quorumd.ids import NO_NODE
from quorumd.pipeline.copies.log_files import parse_directories
from quorumd.pipeline.tables.schemas import Row

if TYPE_CHECKING:
    from quorumd.pipeline.source.followed import FollowedDirectories
    from quorumd.protocol.messages.describe_quorum_response import PartitionData

LagRows = Callable[[datetime, int], list[Row]]
"""Returns a row per node for the timestamp of the last record of a history and its end offset.

Raises RequestFailed, InputIncomplete.
"""


def lag_of(source: Mapping[str, str]) -> LagRows:
    """Return the function that a build of a history calls. Directories yield rows only once the history has reached
    the end of the log."""
    if "path" not in source:
        return _ClusterLag(source)
    from quorumd.pipeline.source.followed import FollowedDirectories

    # Kept for the whole build: segments already scanned are not scanned again.
    directories = FollowedDirectories(parse_directories(source["path"]))
    return lambda as_of, end: _of_directories(directories, as_of, end)


def _of_directories(directories: FollowedDirectories, as_of: datetime, end: int) -> list[Row]:
    from quorumd.pipeline.source.followed import most_up_to_date

    reached = directories.look_at_each()
    farthest = most_up_to_date(reached).offset
    if farthest > end:
        return []
    return [_row(as_of, each.node, "directory", each.offset, farthest - each.offset) for each in reached]


class _ClusterLag:
    """The lag known to the leader. If no bootstrap address responds, the nodes in the last response are tried."""

    def __init__(self, source: Mapping[str, str]) -> None:
        from quorumd.pipeline.source.options import parse_options

        options = parse_options(source)
        self._addresses: Sequence[tuple[str, int]] = options.bootstrap
        self._timeout_ms = options.timeout_s * 1000
        self._security = options.security

    def __call__(self, as_of: datetime, end: int) -> list[Row]:
        del as_of, end
        return _of_cluster(asyncio.run(self._described()))

    async def _described(self) -> PartitionData:
        from quorumd.client.admin import AdminClient
        from quorumd.client.security import CLIENT_SECURITY

        CLIENT_SECURITY.set(self._security())
        async with AdminClient(self._addresses, timeout_ms=self._timeout_ms) as admin:
            quorum = await admin.describe_quorum()
            self._addresses = admin.addresses
        return quorum


def _of_cluster(quorum: PartitionData) -> list[Row]:
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
    """Convert Unix milliseconds; -1 means unknown."""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC) if timestamp_ms >= 0 else None
