from __future__ import annotations

from quorumd.errors import ErrorCode
from quorumd.ids import OffsetAndEpoch, ReplicaKey
from quorumd.node.consensus.durability_gate import DurabilityGate, Message
from quorumd.raft.effects import Respond, Send
from quorumd.raft.messages import FetchRequest, LeaderResponse, VoteRequest

VOTE = Send(2, VoteRequest(1, ReplicaKey(1), ReplicaKey(2), OffsetAndEpoch(0, 0), False))
FETCH = Send(2, FetchRequest(ReplicaKey(1), 1, 100, 1, 500, 1000))
RESPONSE = Respond("token", LeaderResponse(ErrorCode.NONE, 1, 1))


def gate(durable_offset: int = 0) -> tuple[DurabilityGate, list[Message]]:
    left: list[Message] = []
    return DurabilityGate(left.append, durable_offset), left


def test_message_without_a_condition_leaves_at_once() -> None:
    held, left = gate()
    held.release_after([VOTE])
    assert left == [VOTE]


def test_no_message_leaves_before_an_earlier_save_is_durable() -> None:
    held, left = gate()
    held.save_started()
    held.release_after([VOTE])
    held.release_after([RESPONSE])
    assert left == []
    held.save_completed()
    assert left == [VOTE, RESPONSE]


def test_messages_wait_only_for_saves_started_before_them() -> None:
    held, left = gate()
    held.save_started()
    held.release_after([VOTE])
    held.save_started()
    held.release_after([RESPONSE])
    held.save_completed()
    assert left == [VOTE]
    held.save_completed()
    assert left == [VOTE, RESPONSE]


def test_fetch_waits_until_the_records_it_acknowledges_are_durable() -> None:
    held, left = gate(durable_offset=90)
    held.release_after([FETCH], needed_offset=100)
    held.flushed(99)
    assert left == []
    held.flushed(100)
    held.flushed(101)
    assert left == [FETCH]


def test_only_messages_that_begin_to_wait_for_a_flush_are_prepared() -> None:
    prepared: list[Message] = []
    held = DurabilityGate(lambda message: None, 90, prepared.append)
    held.release_after([FETCH], needed_offset=90)
    assert prepared == []
    held.save_started()
    held.release_after([FETCH], needed_offset=100)
    assert prepared == []
    held.save_completed()
    assert prepared == [FETCH]


def test_message_waits_for_a_save_and_then_for_a_flush() -> None:
    held, left = gate(durable_offset=90)
    held.save_started()
    held.release_after([FETCH], needed_offset=100)
    held.save_completed()
    assert left == []
    held.flushed(100)
    assert left == [FETCH]


def test_truncation_withdraws_fetches_of_truncated_records_and_keeps_responses() -> None:
    held, left = gate(durable_offset=90)
    held.release_after([FETCH, RESPONSE], needed_offset=100)
    assert held.truncated(80) == [FETCH]
    assert held.durable_offset == 80
    held.flushed(80)
    assert left == [RESPONSE]


def test_truncation_keeps_fetches_of_records_below_it() -> None:
    held, left = gate(durable_offset=90)
    held.release_after([FETCH], needed_offset=100)
    assert held.truncated(100) == []
    held.flushed(100)
    assert left == [FETCH]
