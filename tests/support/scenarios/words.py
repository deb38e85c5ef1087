"""The wording of a transcript, which describes the actions and messages of engines.

3@1         a log position: the log ends at offset 3, and its last record is of epoch 1
2 -> 1      a message, shown when it arrives; with (held), (lost) or (too late) if it does not arrive in time
"""

from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import NO_NODE, OffsetAndEpoch
from quorumd.raft.effects import ControlBatch, KRaftVersion, LeaderChange
from quorumd.raft.engine import RaftEngine
from quorumd.raft.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    FetchResponse,
    LeaderResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.voters import VoterAssignment
from tests.support.raft.quorum import Batch, MemoryLog, Node


def position(at: OffsetAndEpoch) -> str:
    return f"{at.offset}@{at.epoch}"


def describe_request(request: Request) -> str:
    if isinstance(request, VoteRequest):
        kind = "PreVote" if request.pre_vote else "Vote"
        return f"{kind} epoch {request.epoch}, log {position(request.last)}"
    if isinstance(request, BeginEpochRequest):
        return f"BeginQuorumEpoch {request.epoch}"
    if isinstance(request, EndEpochRequest):
        successors = ", then ".join(str(key.id) for key in request.successors)
        return f"EndQuorumEpoch {request.epoch}, successors {successors}"
    read_round = f", round {request.read_round}" if request.read_round else ""
    at = position(OffsetAndEpoch(request.offset, request.last_epoch))
    return f"Fetch epoch {request.epoch}, from {at}{read_round}"


def describe_response(request: Request, response: Response) -> str:
    """Describe the content of a response, "" for a mere acknowledgement."""
    words = []
    if response.error is not ErrorCode.NONE:
        leader = f"{response.leader_id} leads" if response.leader_id != NO_NODE else "no leader known"
        words.append(f"{response.error.name}, epoch {response.epoch}, {leader}")
    elif isinstance(response, VoteResponse):
        words.append("granted" if response.granted else f"refused, epoch {response.epoch}")
    elif isinstance(response, LeaderResponse):
        return ""
    if isinstance(response, FetchResponse):
        words += describe_fetched(response)
    kind = describe_request(request).split()[0]
    return f"{kind}: {', '.join(words)}"


def describe_fetched(response: FetchResponse) -> list[str]:
    words = []
    if response.batches:
        words.append(records(response.batches[0].base_offset, response.batches[-1].end_offset))
    if response.diverging is not None:
        words.append(f"diverging, the epoch ends here at {position(response.diverging)}")
    if response.error is ErrorCode.NONE:
        known = response.high_watermark
        words.append(f"high watermark {known}" if known >= 0 else "high watermark unknown")
    if response.read_round:
        words.append(f"round {response.read_round}")
    return words


def records(base: int, end: int) -> str:
    return f"record {base}" if end == base + 1 else f"records {base} to {end - 1}"


def describe_role(engine: RaftEngine) -> str:
    role, leader = engine.role_name, engine.leader_id
    if engine.is_leader:
        return f"leads epoch {engine.epoch}"
    if leader != NO_NODE:
        return f"follows {leader} in epoch {engine.epoch}" + " as observer" * (role == "observer")
    return f"voted in epoch {engine.epoch}" if role == "voted" else f"is {role} in epoch {engine.epoch}"


def describe_node(node: Node) -> str:
    log = f"log {describe_log(node.log, node.durable)}"
    if not node.up:
        return f"down, {log}"
    known = node.engine.high_watermark
    return f"{describe_role(node.engine)}, {f'high watermark {known}' if known >= 0 else 'no high watermark'}, {log}"


def describe_state(state: QuorumState) -> str:
    words = [f"epoch {state.epoch}"]
    if state.leader_id != NO_NODE:
        words.append(f"leader {state.leader_id}")
    if state.voted is not None:
        words.append(f"vote {state.voted.id}")
    return " ".join(words)


def describe_log(log: MemoryLog, durable: int) -> str:
    """Describe a log with a word `epoch:content` per record; records after the bar are not durable yet."""
    words = []
    for batch in log.batches:
        if batch.base == durable:
            words.append("|")
        words += [f"{batch.epoch}{what}" for what in contents(batch)]
    return " ".join(words) or "empty"


def contents(batch: Batch) -> list[str]:
    if isinstance(batch.body, ControlBatch):
        return [f":{control_word(record)}" for record in batch.body.records]
    body = f":{batch.body.decode()}" if batch.body != b"x" else ""
    return [body] * (batch.end - batch.base)


def control_word(record: LeaderChange | KRaftVersion | VoterAssignment) -> str:
    if isinstance(record, LeaderChange):
        return "leader"
    return "version" if isinstance(record, KRaftVersion) else "voters"
