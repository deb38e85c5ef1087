"""The leader's side of snapshots: who is sent to one instead of records, and who may read it (KIP-630)."""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, OffsetAndEpoch
from quorumd.raft.events import RequestReceived
from quorumd.raft.log_view import LogView
from quorumd.raft.messages import FetchRequest, SnapshotRequest, SnapshotResponse
from quorumd.raft.replica import Replica
from quorumd.raft.roles import RoleState


def required_snapshot(log: LogView, request: FetchRequest) -> OffsetAndEpoch | None:
    """The snapshot that a replica needs before its fetch can be served, None if records or a cut will do.

    The log does not reach back to where it asks, or to any record that both could have. An empty replica begins
    with a snapshot wherever there is one: that is shorter than the log.
    """
    latest = log.latest_snapshot
    if latest is None or request.replica.id == NO_NODE:
        return None
    if request.offset == 0 or request.offset < log.start_offset:
        return latest
    no_common_prefix = log.start_offset > 0 and log.end_of_epoch(request.last_epoch).epoch == 0
    return latest if no_common_prefix else None


def reject_snapshot_request(replica: Replica, state: RoleState, event: RequestReceived) -> None:
    """Only the leader serves snapshots; the answer tells whom to ask."""
    request = event.request
    assert isinstance(request, SnapshotRequest)
    respond(replica, event, replica.fetch_error(request.epoch))


def respond(replica: Replica, event: RequestReceived, error: ErrorCode, read_limit: int = 0) -> None:
    request = event.request
    assert isinstance(request, SnapshotRequest)
    response = SnapshotResponse(
        error, replica.leader_id, replica.epoch, request.snapshot, request.position, read_limit
    )
    replica.respond(event.reply, response)


def snapshot_error(replica: Replica, request: SnapshotRequest) -> ErrorCode:
    """Why the leader does not serve `request`; never INVALID_REQUEST, which kills a stock observer."""
    error = replica.fetch_error(request.epoch)
    if error is ErrorCode.NONE and request.position < 0:
        return ErrorCode.POSITION_OUT_OF_RANGE
    return error


def read_limit(replica: Replica, request: SnapshotRequest) -> int:
    """How many bytes one answer may have; never none, or nobody would get further."""
    return max(1, min(request.max_bytes, replica.settings.snapshot_max_bytes))
