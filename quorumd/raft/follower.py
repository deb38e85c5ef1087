"""Followers and observers: fetching from the leader, BeginQuorumEpoch and EndQuorumEpoch.

The follower's side of Fetch (KIP-595): truncate a diverged log, append the fetched batches, advance the high
watermark, and fetch again once all of that is durable. The next fetch is the acknowledgement.
"""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID, OffsetAndEpoch, ReplicaKey
from quorumd.raft import defaults
from quorumd.raft.candidate import become_prospective
from quorumd.raft.events import PeerRequestFailed, RequestReceived, ResponseReceived, StorageFull, TimerFired
from quorumd.raft.messages import (
    NO_TOKEN,
    BeginEpochRequest,
    EndEpochRequest,
    FetchedBatch,
    FetchResponse,
    LeaderResponse,
)
from quorumd.raft.newer_epochs import newer_epoch_refusal, report_refusal, trusts
from quorumd.raft.replica import PeerFault, Replica
from quorumd.raft.roles import Follower, Role, RoleState
from quorumd.raft.snapshot_fetching import on_leader_lost, retry_fetch_later, start_snapshot_fetch
from quorumd.raft.transitions import (
    become_follower,
    become_unattached,
    fetch_from_leader,
    knows_leader,
    observe,
)

UNKNOWN_LEADER = "no recorded voter has named it as leader"


def handle_timer(replica: Replica, state: Follower, event: TimerFired) -> None:
    """Campaign after the fetch timeout if permitted; until then, send the next fetch of records or of a snapshot."""
    if replica.now >= state.fetch_deadline:
        if replica.may_campaign:
            become_prospective(replica)
        else:
            become_unattached(replica, replica.epoch)
    elif not state.fetch_in_flight and replica.now >= state.fetch_at:
        if state.snapshot is not None:
            start_snapshot_fetch(replica, state, state.snapshot)
        else:
            fetch_from_leader(replica, state)


def handle_fetch_response(replica: Replica, state: Follower, event: ResponseReceived) -> None:
    """Apply a successful response. On an error campaign soon if the leader has left, else retry later."""
    response = event.response
    assert isinstance(response, FetchResponse)
    observe(replica, response.epoch, response.leader_id, event.peer)
    if replica.state is not state or event.request is not state.fetch:
        return
    state.fetch = None
    if response.epoch < replica.epoch:
        retry_fetch_later(replica, state)
    elif response.error in (ErrorCode.NONE, ErrorCode.NOT_FOLLOWER):
        if response.error is ErrorCode.NOT_FOLLOWER:
            replica.downgraded = True
        apply_fetch_response(replica, state, response)
    elif response.error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE):
        on_leader_lost(replica, state)
    else:
        retry_fetch_later(replica, state)


def handle_fetch_failure(replica: Replica, state: Follower, event: PeerRequestFailed) -> None:
    if event.request is not state.fetch:
        return
    state.fetch = None
    if event.refused:
        on_leader_lost(replica, state)
    else:
        retry_fetch_later(replica, state)


def apply_fetch_response(replica: Replica, state: Follower, response: FetchResponse) -> None:
    """Apply a successful response. Only such a response restarts the fetch timeout (hole 41)."""
    state.record_success(replica.now, replica.fetch_timeout())
    state.leader_high_watermark = response.high_watermark
    replica.stall_grace_ms = 0.0
    state.read_round = max(state.read_round, response.read_round)
    if response.diverging is not None:
        truncate(replica, state, response.diverging)
        return
    if response.snapshot is not None:
        start_snapshot_fetch(replica, state, response.snapshot)
        return
    has_batches = bool(response.batches)
    appended = append_batches(replica, response)
    replica.commit(min(replica.end.offset, response.high_watermark))
    if 0 <= response.high_watermark <= replica.end.offset or replica.is_recorded_voter:
        replica.catching_up = False
    if has_batches and not appended:
        retry_fetch_later(replica, state)
    else:
        fetch_from_leader(replica, state)


def append_batches(replica: Replica, response: FetchResponse) -> bool:
    """Append the batches that continue the local log and return whether there were any."""
    appendable = continuation(replica.end, replica.epoch, response.batches)
    if not appendable:
        return False
    last = appendable[-1]
    beyond = [batch.position for batch in response.batches if batch.base_offset >= last.end_offset]
    stop = beyond[0] if beyond else len(response.records)
    replica.append(
        response.records[appendable[0].position : stop], OffsetAndEpoch(last.end_offset, last.epoch)
    )
    for batch in appendable:
        for offset, assignment in batch.voters:
            replica.apply_voters(offset, assignment)
            replica.downgraded = False
    return True


def continuation(end: OffsetAndEpoch, epoch: int, batches: tuple[FetchedBatch, ...]) -> list[FetchedBatch]:
    """The batches that may be appended to a log that ends at `end`, in the current epoch `epoch`.

    Batches that the log already has are skipped. The first batch that would overwrite records or leave a gap, or
    whose epoch is above the current one or below that of the previous batch, is dropped with all that follow.
    """
    appendable: list[FetchedBatch] = []
    for batch in batches:
        if batch.end_offset <= end.offset:
            continue
        if batch.base_offset != end.offset or not end.epoch <= batch.epoch <= epoch:
            break
        appendable.append(batch)
        end = OffsetAndEpoch(batch.end_offset, batch.epoch)
    return appendable


def truncate(replica: Replica, state: Follower, diverging: OffsetAndEpoch) -> None:
    """Truncate the log to the end of the last common epoch (Raft paper 5.3, KIP-595, hole 33).

    Raises PeerFault if that would remove committed records.
    """
    local = replica.log.end_of_epoch(diverging.epoch)
    target = min(local.offset, diverging.offset) if local.epoch == diverging.epoch else local.offset
    if target < replica.committed:
        raise PeerFault(
            f"it requires truncation to offset {target}, below the high watermark {replica.committed}"
        )
    if target >= replica.end.offset:
        retry_fetch_later(replica, state)
        return
    replica.effects.truncate_to = target
    replica.flushed = min(replica.flushed, target)
    replica.voters.truncate_to(target)
    state.fetch_at = replica.now  # In the next step, in which `log` shows the epoch at its new end.


def handle_storage_full(replica: Replica, state: Follower, event: StorageFull) -> None:
    """Fetch rarely to stay in contact with the leader; each response retries the append."""
    defaults.handle_storage_full(replica, state, event)
    state.fetch = None
    state.fetch_at = replica.now + replica.settings.retry_backoff_max_ms


def handle_begin_request(replica: Replica, state: RoleState, event: RequestReceived) -> None:
    """Follow the new leader, even if this replica is not a voter by its own log yet (hole 34)."""
    request = event.request
    assert isinstance(request, BeginEpochRequest)
    error = announcement_error(replica, event, request)
    token = request.token if replica.settings.epoch_tokens else NO_TOKEN
    if error is ErrorCode.NONE:
        if isinstance(state, Follower) and is_following(replica, request):
            state.leader_lost = False
            state.token = token
            if not state.fetch_in_flight and state.snapshot is None:
                fetch_from_leader(replica, state)
        else:
            become_follower(replica, request.leader_id, request.epoch, token)
    respond(replica, event, error, knows_tokens=token != NO_TOKEN)


def handle_end_request(replica: Replica, state: RoleState, event: RequestReceived) -> None:
    """Campaign after a wait that depends on this replica's position among the preferred successors (KIP-595)."""
    request = event.request
    assert isinstance(request, EndEpochRequest)
    error = announcement_error(replica, event, request)
    if error is ErrorCode.NONE:
        is_campaigning = replica.state.role is Role.PROSPECTIVE and request.epoch == replica.epoch
        if not is_campaigning and not is_following(replica, request):
            become_follower(replica, request.leader_id, request.epoch)
        if isinstance(replica.state, Follower):
            shorten_election_timeout(replica, replica.state, request)
    respond(replica, event, error)


def shorten_election_timeout(replica: Replica, state: Follower, request: EndEpochRequest) -> None:
    state.leader_lost = True
    state.fetch_deadline = min(state.fetch_deadline, replica.now + end_epoch_backoff_ms(replica, request))
    retry_fetch_later(replica, state)
    if replica.now >= state.fetch_deadline and replica.may_campaign:
        become_prospective(replica)


def end_epoch_backoff_ms(replica: Replica, request: EndEpochRequest) -> int:
    """Milliseconds to wait before campaigning (hole 28): 0 for the first successor, then doubling with the position.
    A replica that is not listed waits longest, for `election_backoff_max_ms`."""
    longest = replica.settings.election_backoff_max_ms
    for position, successor in enumerate(request.successors):
        if successor.matches(replica.identity):
            if position == 0:
                return 0
            return min(longest, (longest >> (len(request.successors) - 1)) << (position - 1))
    return longest


def is_following(replica: Replica, request: BeginEpochRequest | EndEpochRequest) -> bool:
    state = replica.state
    return isinstance(state, Follower) and (replica.epoch, state.leader_id) == (
        request.epoch,
        request.leader_id,
    )


def announcement_error(
    replica: Replica, event: RequestReceived, request: BeginEpochRequest | EndEpochRequest
) -> ErrorCode:
    """The error for a BeginQuorumEpoch or EndQuorumEpoch request; NONE if it is accepted.

    A leader that is not trusted, or whose epoch may not be entered (`newer_epochs`), gets UNKNOWN_LEADER_EPOCH, which
    a Kafka controller ignores. A second leader of the epoch gets INVALID_REQUEST.
    """
    if request.leader_id < 0 or request.epoch < 0:
        return ErrorCode.INVALID_REQUEST
    if request.epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    kind = "BeginQuorumEpoch" if isinstance(request, BeginEpochRequest) else "EndQuorumEpoch"
    if request.epoch > replica.epoch:
        leader = ReplicaKey(request.leader_id, ZERO_UUID)
        refusal = newer_epoch_refusal(replica, event, leader, request.epoch)
        if refusal is None and not trusts(replica, request.leader_id):
            refusal = UNKNOWN_LEADER
        if refusal is not None:
            report_refusal(replica, event, kind, request.leader_id, refusal)
            return ErrorCode.UNKNOWN_LEADER_EPOCH
    elif not is_following(replica, request) and not trusts(replica, request.leader_id):
        report_refusal(replica, event, kind, request.leader_id, UNKNOWN_LEADER)
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    other_leads = knows_leader(replica) and replica.saved.leader_id != request.leader_id
    if request.leader_id == replica.id or (request.epoch == replica.epoch and other_leads):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def respond(replica: Replica, event: RequestReceived, error: ErrorCode, knows_tokens: bool = False) -> None:
    replica.respond(event.reply, LeaderResponse(error, replica.leader_id, replica.epoch, knows_tokens))
