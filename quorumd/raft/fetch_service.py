"""The leader's side of fetching: validation, responses, and delayed fetches (KIP-595)."""

from __future__ import annotations

from math import inf

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, ZERO_UUID, OffsetAndEpoch
from quorumd.raft.events import RequestReceived
from quorumd.raft.log_view import LogView
from quorumd.raft.messages import NO_READ_ROUND, FetchRequest, FetchResponse, Reply, SnapshotRequest
from quorumd.raft.replica import Replica
from quorumd.raft.roles import DelayedFetch, Leader, Progress, RoleState
from quorumd.raft.snapshot_service import read_limit, required_snapshot, respond, snapshot_error
from quorumd.raft.voter_proof import is_proven, request_proof
from quorumd.raft.voters import majority_value

MAX_OBSERVERS = 2000
"""Maximum number of observers whose progress is recorded: a client may fetch with any replica id."""
OBSERVER_CHECK_MS = 1000
"""Minimum interval between removals of silent observers while there are too many."""
MAX_DELAYED_FETCHES = MAX_OBSERVERS + 100
"""Maximum number of delayed fetches of replicas, and of consumers: every commit iterates over all of them."""


def reject_fetch(replica: Replica, state: RoleState, event: RequestReceived) -> None:
    """Reject a fetch while not leading; the response has the leader."""
    request = event.request
    assert isinstance(request, FetchRequest)
    respond_error(replica, event.reply, replica.fetch_error(request.epoch))


def respond_error(replica: Replica, reply: Reply, error: ErrorCode) -> None:
    replica.respond(reply, FetchResponse(error, replica.leader_id, replica.epoch))


def fetch_error(replica: Replica, request: FetchRequest) -> ErrorCode:
    """The error for `request`, NONE to serve it. A Kafka observer exits on INVALID_REQUEST, which therefore is only
    for requests that no correct client sends."""
    is_consumer = request.replica.id == NO_NODE
    if not (is_consumer and request.epoch < 0):
        error = replica.fetch_error(request.epoch)
        if error is not ErrorCode.NONE:
            return error
    if request.replica.id == replica.id or request.offset < 0 or request.max_wait_ms < 0:
        return ErrorCode.INVALID_REQUEST
    if not is_consumer and not 0 <= request.last_epoch <= request.epoch:
        return ErrorCode.INVALID_REQUEST
    if request.offset < replica.log.start_offset and required_snapshot(replica.log, request) is None:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.NONE


def divergence(log: LogView, request: FetchRequest) -> OffsetAndEpoch | None:
    """The end of this log's largest epoch <= `last_epoch` if the fetching replica's log has diverged from this one,
    else None (Raft paper 5.3)."""
    end = log.end_of_epoch(request.last_epoch)
    if end.epoch == request.last_epoch and request.offset <= end.offset:
        return None
    return end


def record_fetch(replica: Replica, leader: Leader, event: RequestReceived) -> Progress | None:
    """Record the progress of the fetching replica.

    Returns None if the fetch is already completed: with an error, the diverging epoch, or a snapshot to fetch first.
    """
    request = event.request
    assert isinstance(request, FetchRequest)
    error = fetch_error(replica, request)
    if error is not ErrorCode.NONE:
        respond_error(replica, event.reply, error)
        return None
    progress = progress_of(replica, leader, event)
    snapshot = required_snapshot(replica.log, request)
    diverging = divergence(replica.log, request) if snapshot is None else None
    if snapshot is not None or diverging is not None:
        record_contact(replica, progress)
        hw = leader.high_watermark
        start = replica.log.start_offset
        response = FetchResponse(ErrorCode.NONE, replica.id, replica.epoch, hw, start, diverging)
        response.snapshot = snapshot
        response.read_round = leader.reads.stamp_response()
        replica.respond(event.reply, response)
        return None
    record(replica, leader, progress, request)
    return progress


def progress_of(replica: Replica, leader: Leader, event: RequestReceived) -> Progress:
    """The Progress in which a fetch is recorded. Only a voter's counts towards the high watermark.

    For a fetch with a voter's id but without proof (`voter_proof`) it is a new one that is not kept.
    """
    request = event.request
    assert isinstance(request, FetchRequest | SnapshotRequest)
    key = request.replica
    voter = leader.voters.get(key.id)
    if voter is not None and voter.key.directory_id in (ZERO_UUID, key.directory_id):
        if is_proven(replica, leader, voter, event):
            return voter
        request_proof(replica, voter)
        return Progress(key, replica.now)
    observer = leader.observers.get(key)
    if observer is None:
        observer = Progress(key, replica.now)
        if has_room_for_observer(replica, leader):
            leader.observers[key] = observer
    return observer


def has_room_for_observer(replica: Replica, leader: Leader) -> bool:
    """Whether another observer can be recorded; recorded ones are kept while they fetch."""
    if (
        len(leader.observers) >= MAX_OBSERVERS
        and replica.now >= leader.observers_checked_at + OBSERVER_CHECK_MS
    ):
        leader.observers_checked_at = replica.now
        forget_silent_observers(replica, leader)
    return len(leader.observers) < MAX_OBSERVERS


def forget_silent_observers(replica: Replica, leader: Leader) -> None:
    oldest = replica.now - replica.settings.observer_session_ms
    for key in [key for key, observer in leader.observers.items() if observer.last_fetch < oldest]:
        del leader.observers[key]


def record_contact(replica: Replica, progress: Progress) -> None:
    """Record that a replica is alive, but not its log end offset."""
    progress.last_fetch = replica.now
    progress.leader_end_at_last_fetch = replica.end.offset


def record(replica: Replica, leader: Leader, progress: Progress, request: FetchRequest) -> None:
    """Record a fetch: all records below its offset are durable on that replica."""
    if request.offset >= replica.end.offset:
        progress.last_caught_up = replica.now
    elif progress.has_fetched and request.offset >= progress.leader_end_at_last_fetch:
        progress.last_caught_up = max(progress.last_caught_up, progress.last_fetch)
    record_contact(replica, progress)
    progress.has_fetched = True
    progress.end_offset = request.offset
    progress.supports_read_rounds = request.read_round != NO_READ_ROUND
    confirmed_round = (
        request.read_round
        if progress.supports_read_rounds
        else leader.reads.round_confirmed_by(request.offset)
    )
    progress.read_round = max(progress.read_round, confirmed_round)
    if progress.key.directory_id == ZERO_UUID:
        progress.observed_directory_id = request.replica.directory_id


def respond_or_delay(replica: Replica, leader: Leader, event: RequestReceived, progress: Progress) -> None:
    """Respond at once if there are records or a new read round, else delay the response (long poll).

    A higher high watermark alone is delayed briefly: under load it is sent with the next records at no extra cost.
    """
    request = event.request
    assert isinstance(request, FetchRequest)
    key = (request.replica, leader.voters.get(progress.key.id) is progress)
    superseded = leader.delayed.pop(key, None)
    if superseded is not None:
        respond_with_records(replica, leader, superseded)
    delayed = DelayedFetch(event.reply, request, replica.now + request.max_wait_ms)
    newer_round = request.read_round != NO_READ_ROUND and leader.reads.has_newer_round(request.read_round)
    is_crowded = len(leader.delayed) >= MAX_DELAYED_FETCHES and not key[1]
    if request.offset < replica.end.offset or newer_round or request.max_wait_ms == 0 or is_crowded:
        respond_with_records(replica, leader, delayed)
        return
    if request.known_high_watermark < leader.high_watermark:
        delayed.deadline = min(delayed.deadline, replica.now + replica.settings.high_watermark_linger_ms)
    leader.delayed[key] = delayed
    leader.next_delay_expiry = min(leader.next_delay_expiry, delayed.deadline)


def respond_with_records(replica: Replica, leader: Leader, delayed: DelayedFetch) -> None:
    """Respond with the records from the fetch offset on, if any."""
    request = delayed.request
    response = FetchResponse(ErrorCode.NONE, replica.id, replica.epoch, leader.high_watermark)
    response.log_start_offset = replica.log.start_offset
    response.read_round = leader.reads.stamp_response()
    if request.offset < replica.end.offset:
        response.read_start_offset = request.offset
        response.read_limit = request.max_bytes
    if request.is_follower and not replica.voter_set.includes(request.replica):
        response.error = ErrorCode.NOT_FOLLOWER
    replica.respond(delayed.reply, response)


def handle_snapshot_request(replica: Replica, leader: Leader, event: RequestReceived) -> None:
    """Serve a chunk of a snapshot. A voter's request counts for check-quorum."""
    request = event.request
    assert isinstance(request, SnapshotRequest)
    error = snapshot_error(replica, request)
    if error is not ErrorCode.NONE:
        respond(replica, event, error)
        return
    if request.replica.id not in (NO_NODE, replica.id):
        record_contact(replica, progress_of(replica, leader, event))
    respond(replica, event, error, read_limit(replica, request))


# Consumers, which read only committed records and acknowledge none (hole 37)


def serve_consumer(replica: Replica, leader: Leader, event: RequestReceived) -> None:
    """Respond with committed records, or delay the fetch until there are more or it expires."""
    request = event.request
    assert isinstance(request, FetchRequest)
    error = fetch_error(replica, request)
    if error is ErrorCode.NONE and request.offset > max(leader.high_watermark, replica.log.start_offset):
        error = ErrorCode.OFFSET_OUT_OF_RANGE if leader.high_watermark >= 0 else error
    if error is not ErrorCode.NONE:
        respond_error(replica, event.reply, error)
        return
    delayed = DelayedFetch(event.reply, request, replica.now + request.max_wait_ms)
    is_crowded = len(leader.delayed_consumers) >= MAX_DELAYED_FETCHES
    if request.offset < leader.high_watermark or request.max_wait_ms == 0 or is_crowded:
        respond_with_committed(replica, leader, delayed)
    else:
        leader.delayed_consumers.append(delayed)
        leader.next_delay_expiry = min(leader.next_delay_expiry, delayed.deadline)


def respond_with_committed(replica: Replica, leader: Leader, delayed: DelayedFetch) -> None:
    request = delayed.request
    response = FetchResponse(ErrorCode.NONE, replica.id, replica.epoch, leader.high_watermark)
    response.log_start_offset = replica.log.start_offset
    if request.offset < leader.high_watermark:
        response.read_start_offset = request.offset
        response.read_limit = request.max_bytes
        response.read_max_offset = leader.high_watermark
    replica.respond(delayed.reply, response)


# Completing delayed fetches


def complete_delayed_fetches(replica: Replica, leader: Leader) -> None:
    """Complete all delayed fetches with the records that were appended."""
    delayed, leader.delayed = leader.delayed, {}
    for fetch in delayed.values():
        respond_with_records(replica, leader, fetch)


def complete_voter_fetches(replica: Replica, leader: Leader) -> None:
    """Complete the delayed fetches of voters that support read rounds, so that they fetch again in the new round."""
    supporting = [voter.key.id for voter in leader.voters.values() if voter.supports_read_rounds]
    for key in [key for key in leader.delayed if key[1] and key[0].id in supporting]:
        respond_with_records(replica, leader, leader.delayed.pop(key))


def complete_unproven_fetch(replica: Replica, leader: Leader, voter: Progress) -> None:
    """Complete the delayed fetches of a voter that did not count, so that it fetches again with the token."""
    for key in [key for key in leader.delayed if key[0].id == voter.key.id and not key[1]]:
        respond_with_records(replica, leader, leader.delayed.pop(key))


def on_high_watermark_advanced(replica: Replica, leader: Leader) -> None:
    """Complete consumers' fetches at once, and those of replicas within `high_watermark_linger_ms`."""
    soon = replica.now + replica.settings.high_watermark_linger_ms
    for fetch in leader.delayed.values():
        if fetch.request.known_high_watermark < leader.high_watermark and fetch.deadline > soon:
            fetch.deadline = soon
            leader.next_delay_expiry = min(leader.next_delay_expiry, soon)
    waiting, leader.delayed_consumers = leader.delayed_consumers, []
    for fetch in waiting:
        if fetch.request.offset < leader.high_watermark:
            respond_with_committed(replica, leader, fetch)
        else:
            leader.delayed_consumers.append(fetch)


def complete_expired_fetches(replica: Replica, leader: Leader) -> None:
    """Complete the delayed fetches whose deadline has passed."""
    for key in [key for key, fetch in leader.delayed.items() if fetch.deadline <= replica.now]:
        respond_with_records(replica, leader, leader.delayed.pop(key))
    waiting, leader.delayed_consumers = leader.delayed_consumers, []
    for fetch in waiting:
        if fetch.deadline <= replica.now:
            respond_with_committed(replica, leader, fetch)
        else:
            leader.delayed_consumers.append(fetch)
    delayed = [*leader.delayed.values(), *leader.delayed_consumers]
    leader.next_delay_expiry = min((fetch.deadline for fetch in delayed), default=inf)


def confirm_reads(replica: Replica, leader: Leader) -> None:
    """Complete the reads whose round is confirmed by a majority of the voters, this leader included."""
    if not leader.reads.waiting:
        return
    rounds = [progress.read_round for progress in leader.voters.values()]
    if leader.in_voter_set:
        rounds.append(leader.reads.current)
    replica.effects.reads_ready += leader.reads.confirm(majority_value(rounds), leader.high_watermark)
    if leader.reads.needs_record(replica.end.offset):
        replica.effects.record_needed = not all(
            voter.supports_read_rounds for voter in leader.voters.values()
        )
