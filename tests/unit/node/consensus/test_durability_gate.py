from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import OffsetAndEpoch, ReplicaKey
from quorumd.node.consensus.durability_gate import DurabilityGate, Message
from quorumd.raft.effects import Respond, Send
from quorumd.raft.messages import FetchRequest, LeaderResponse, VoteRequest

VOTE = Send(2, VoteRequest(1, ReplicaKey(1), ReplicaKey(2), OffsetAndEpoch(0, 0), False))
FETCH = Send(2, FetchRequest(ReplicaKey(1), 1, 100, 1, 500, 1000))
ANSWER = Respond("asked", LeaderResponse(ErrorCode.NONE, 1, 1))


def gate(durable_offset: int = 0) -> tuple[DurabilityGate, list[Message]]:
    left: list[Message] = []
    return DurabilityGate(left.append, durable_offset), left


def test_what_needs_nothing_leaves_at_once() -> None:
    held, left = gate()
    held.release_after([VOTE])
    assert left == [VOTE]


def test_nothing_overtakes_a_save_not_even_what_does_not_depend_on_it() -> None:
    held, left = gate()
    held.save_started()
    held.release_after([VOTE])
    held.release_after([ANSWER])
    assert left == []
    held.save_completed()
    assert left == [VOTE, ANSWER]


def test_messages_wait_for_the_saves_begun_before_them_only() -> None:
    held, left = gate()
    held.save_started()
    held.release_after([VOTE])
    held.save_started()
    held.release_after([ANSWER])
    held.save_completed()
    assert left == [VOTE]
    held.save_completed()
    assert left == [VOTE, ANSWER]


def test_a_fetch_waits_until_what_it_acknowledges_is_durable() -> None:
    held, left = gate(durable_offset=90)
    held.release_after([FETCH], needed_offset=100)
    held.flushed(99)
    assert left == []
    held.flushed(100)
    assert left == [FETCH]


def test_behind_a_save_and_then_behind_a_flush() -> None:
    held, left = gate(durable_offset=90)
    held.save_started()
    held.release_after([FETCH], needed_offset=100)
    held.save_completed()
    assert left == []
    held.flushed(100)
    assert left == [FETCH]


def test_a_truncation_withdraws_fetches_for_what_is_gone_and_keeps_the_answers() -> None:
    held, left = gate(durable_offset=90)
    held.release_after([FETCH, ANSWER], needed_offset=100)
    assert held.truncated(80) == [FETCH]
    assert held.durable_offset == 80
    held.flushed(80)
    assert left == [ANSWER]


def test_a_truncation_leaves_alone_what_is_below_it() -> None:
    held, left = gate(durable_offset=90)
    held.release_after([FETCH], needed_offset=100)
    assert held.truncated(100) == []
    held.flushed(100)
    assert left == [FETCH]
