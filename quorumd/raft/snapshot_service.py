"""The leader's side of FetchSnapshot: which replicas need a snapshot, and requests for its bytes (KIP-630)."""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, OffsetAndEpoch
from quorumd.raft.events import RequestReceived
from quorumd.raft.log_view import LogView
from quorumd.raft.messages import FetchRequest, SnapshotRequest, SnapshotResponse
from quorumd.raft.replica import Replica
from quorumd.raft.roles import RoleState


def required_snapshot(log: LogView, request: FetchRequest) -> OffsetAndEpoch | None:
    """The snapshot that a replica must fetch first; None if its fetch can be served, or its log truncated.

    A replica needs one if its fetch offset is below the log start offset, or if the two logs have no common prefix. A
    replica with an empty log gets one too, since a snapshot is shorter than the log that it covers.
    """
    latest = log.latest_snapshot
    if latest is None or request.replica.id == NO_NODE:
        return None
    if request.offset == 0 or request.offset < log.start_offset:
        return latest
    no_common_prefix = log.start_offset > 0 and log.end_of_epoch(request.last_epoch).epoch == 0
    return latest if no_common_prefix else None


def reject_snapshot_request(replica: Replica, state: RoleState, event: RequestReceived) -> None:
    """Reject FetchSnapshot while not leading; the response has the leader."""
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
    """The error for `request`, NONE to serve it. Never INVALID_REQUEST, on which a Kafka observer exits."""
    error = replica.fetch_error(request.epoch)
    if error is ErrorCode.NONE and request.position < 0:
        return ErrorCode.POSITION_OUT_OF_RANGE
    return error


def read_limit(replica: Replica, request: SnapshotRequest) -> int:
    """The maximum number of bytes in the response, at least 1 so that every request makes progress."""
    return max(1, min(request.max_bytes, replica.settings.snapshot_max_bytes))
