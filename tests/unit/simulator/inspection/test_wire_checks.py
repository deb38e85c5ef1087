"""Checks of votes and fetches on the wire, with the bytes that nodes write."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.connection import ClientConnection, Request, encode_response
from quorumd.protocol.messages import vote_request, vote_response
from quorumd.protocol.messages.fetch_quorum_records_request import FetchQuorumRecordsRequest
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.inspection.wire_checks import WireChecks

FIRST, SECOND = KafkaUuid(b"1" * 16), KafkaUuid(b"2" * 16)


class Wire:
    """Three nodes, each with a connection to every other one."""

    def __init__(self) -> None:
        machines = {n: SimpleNamespace(node_id=n, host=f"h{n}", directory_id=FIRST) for n in (1, 2, 3)}
        self.cluster: Any = SimpleNamespace(
            machines=machines,
            network=SimpleNamespace(links={}),
            heap=SimpleNamespace(now_ms=0.0),
            voters=(1, 2, 3),
            voters_changed=False,
        )
        self.checks = WireChecks(self.cluster)

    def connect(self, sender: int, receiver: int, process: object = True) -> SimpleNamespace:
        near, far = Side(f"h{sender}", process), Side(f"h{receiver}", True)
        near.far, far.far = far, near
        self.cluster.network.links[near] = None
        return near

    def vote(
        self,
        voter: int,
        candidate: int,
        epoch: int = 5,
        directory_id: KafkaUuid = FIRST,
        granted: bool = True,
        pre_vote: bool = False,
    ) -> None:
        """Let a candidate request a vote and the voter respond."""
        side, version = self.connect(candidate, voter), 2
        ballot = vote_request.PartitionData(0, epoch, candidate, directory_id, ZERO_UUID, 1, 2, pre_vote)
        topics = [vote_request.TopicData("__cluster_metadata", [ballot])]
        message = vote_request.VoteRequest("c", voter, topics)
        correlation_id, data = ClientConnection("n").request(message, version)
        self.checks.written(side, data)
        result = vote_response.PartitionData(0, 0, -1, epoch, granted)
        response = vote_response.VoteResponse(0, [vote_response.TopicData("__cluster_metadata", [result])])
        request: Request[Any] = Request(52, version, correlation_id, "n", message, b"", 0)
        framed = encode_response(request, response)
        self.checks.written(side.far, len(framed).to_bytes(4) + framed)

    def fetch(self, sender: int, receiver: int, now_ms: float, process: object = True) -> None:
        self.cluster.heap.now_ms = now_ms
        data = ClientConnection("n").request(FetchQuorumRecordsRequest(), 0)[1]
        self.checks.written(self.connect(sender, receiver, process), data)


class Side:
    """One end of a connection."""

    def __init__(self, host: str, process: object) -> None:
        self.host = host
        self.process = process
        self.far: Any = None


def test_second_vote_in_an_epoch_is_a_violation() -> None:
    wire = Wire()
    wire.vote(1, candidate=2)
    wire.vote(1, candidate=2)
    assert wire.checks.grants == 2
    with pytest.raises(InvariantViolation, match=r"node 1 .*vote of epoch 5"):
        wire.vote(1, candidate=3)


def test_vote_for_another_disk_of_the_candidate_is_a_violation() -> None:
    wire = Wire()
    wire.vote(1, candidate=2)
    with pytest.raises(InvariantViolation):
        wire.vote(1, candidate=2, directory_id=SECOND)


def test_votes_of_other_epochs_replicas_and_ballots_are_allowed() -> None:
    wire = Wire()
    wire.vote(1, candidate=2)
    wire.vote(1, candidate=3, epoch=6)
    wire.vote(3, candidate=3)
    wire.vote(1, candidate=3, granted=False)
    wire.vote(1, candidate=3, pre_vote=True)
    wire.cluster.machines[1].directory_id = SECOND
    wire.vote(1, candidate=3)


def test_read_needs_fetches_of_a_majority_after_it() -> None:
    wire = Wire()
    wire.fetch(2, 1, 10.0)
    wire.fetch(3, 2, 30.0)
    with pytest.raises(InvariantViolation, match="requested a read at"):
        wire.checks.read_completed(31.0)
    wire.checks.read_completed(30.0)
    wire.checks.read_completed(5.0)
    assert wire.checks.reads == 3


def test_replayed_fetch_confirms_no_read() -> None:
    wire = Wire()
    wire.fetch(2, 1, 10.0, process=None)
    with pytest.raises(InvariantViolation):
        wire.checks.read_completed(5.0)


def test_reads_are_not_checked_after_voter_changes() -> None:
    wire = Wire()
    wire.cluster.voters_changed = True
    wire.checks.read_completed(5.0)
    assert wire.checks.reads == 0
