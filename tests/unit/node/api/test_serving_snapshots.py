"""FetchSnapshot at the leader: what the engine allows is read from the files when the answer leaves."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from quorumd.errors import ErrorCode, StorageError
from quorumd.ids import Endpoint, OffsetAndEpoch, ReplicaKey
from quorumd.node.api.quorum import PendingResponse, QuorumApis, ResponseSender
from quorumd.node.peers.address_book import Address
from quorumd.node.wire import snapshot_messages
from quorumd.protocol.messages.vote_request import VoteRequest
from quorumd.raft.effects import Respond
from quorumd.raft.events import RequestReceived
from quorumd.raft.messages import LeaderResponse, SnapshotRequest, SnapshotResponse
from tests.support.log.small_logs import fresh_disk, open_log
from tests.support.log.snapshots import write_snapshot
from tests.support.node.api_harness import CLUSTER_ID, ApiHarness, ScriptedDiscovery, ScriptedEngine
from tests.support.node.recording_session import request_of

LEADER = Endpoint("CONTROLLER", "host-2", 9092)
SNAPSHOT, NEWER = OffsetAndEpoch(100, 3), OffsetAndEpoch(200, 3)


class SnapshotHarness(ApiHarness):
    """Node 2 leads epoch 5 and has SNAPSHOT."""

    def __init__(self) -> None:
        self.disk = fresh_disk(1)
        write_snapshot(self.disk, "log", SNAPSHOT)
        self.log = open_log(self.disk, "log")
        self.path = self.log.snapshots.path(SNAPSHOT)
        file = self.disk.open(self.path)
        self.whole = file.read_at(0, file.size())
        super().__init__(
            engine=ScriptedEngine(leader_id=2, epoch=5),
            discovery=ScriptedDiscovery({2: Address("host-2", 9092)}),
            log=self.log,
        )
        self.fatal_errors: list[StorageError] = []
        self.responses = ResponseSender(self.statistics, self.fatal_errors.append)
        self.apis = QuorumApis(self.context)

    def piece(
        self,
        position: int = 0,
        limit: int = 1 << 20,
        snapshot: OffsetAndEpoch = SNAPSHOT,
        error: ErrorCode = ErrorCode.NONE,
    ) -> Any:
        """The partition of the answer, where the engine lets `limit` bytes be read."""
        asked = SnapshotRequest(ReplicaKey(7), 5, snapshot, position, limit)
        message = snapshot_messages.snapshot_request_to_wire(asked, CLUSTER_ID, 1)
        self.apis.fetch_snapshot(self.session, request_of(message, 1))
        event = self.events.pop()
        assert isinstance(event, RequestReceived)
        assert event.request == asked
        response = SnapshotResponse(error, 2, 5, snapshot, position, limit)
        self.responses.respond(Respond(event.reply, response))
        (partition,) = self.session.answers[-1].topics[0].partitions
        leader = partition.current_leader
        assert (leader.leader_id, leader.leader_epoch) == (2, 5)
        assert (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == tuple(snapshot)
        assert partition.position == position
        return partition


@pytest.fixture
def world() -> SnapshotHarness:
    return SnapshotHarness()


def test_pieces_make_up_the_file(world: SnapshotHarness) -> None:
    size, came = len(world.whole), b""
    while len(came) < size:
        piece = world.piece(len(came), 77)
        assert (piece.error_code, piece.size) == (0, size)
        assert len(piece.unaligned_records) == min(77, size - len(came))
        came += piece.unaligned_records
    assert came == world.whole


@pytest.mark.parametrize("beyond", [0, 1, 1 << 40])
def test_there_is_nothing_at_the_end_and_behind_it(world: SnapshotHarness, beyond: int) -> None:
    piece = world.piece(len(world.whole) + beyond)
    assert (piece.error_code, piece.unaligned_records) == (ErrorCode.POSITION_OUT_OF_RANGE, b"")


def test_one_that_is_not_here_is_not_found(world: SnapshotHarness) -> None:
    piece = world.piece(snapshot=NEWER)
    assert (piece.error_code, piece.unaligned_records) == (ErrorCode.SNAPSHOT_NOT_FOUND, b"")


def test_one_that_a_newer_one_has_replaced_meanwhile_is_not_found(world: SnapshotHarness) -> None:
    world.piece()
    world.disk.remove(world.path)
    assert world.piece(1).error_code == ErrorCode.SNAPSHOT_NOT_FOUND


def test_a_disk_that_cannot_read_it_costs_no_more_than_the_snapshot(
    world: SnapshotHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(file: Any, position: int, length: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(type(world.disk.open(world.path)), "read_at", failing)
    with caplog.at_level(logging.WARNING):
        assert world.piece().error_code == ErrorCode.SNAPSHOT_NOT_FOUND
    assert world.path in caplog.text


def test_what_the_engine_refuses_is_not_read(world: SnapshotHarness) -> None:
    piece = world.piece(error=ErrorCode.FENCED_LEADER_EPOCH)
    assert (piece.error_code, piece.size, piece.unaligned_records) == (74, 0, b"")


def test_log_that_cannot_be_read_is_a_fatal_error_and_not_a_response(world: SnapshotHarness) -> None:
    def unreadable(response: Any) -> Any:
        raise StorageError("input/output error")

    request = request_of(VoteRequest("c" * 22), 1)
    reply = PendingResponse(world.session, request, unreadable)
    world.responses.respond(Respond(reply, LeaderResponse(ErrorCode.NONE, 2, 5)))
    assert [str(error) for error in world.fatal_errors] == ["input/output error"]
    assert world.session.answers == []
