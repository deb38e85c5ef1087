"""FetchSnapshot at the leader: chunks are read from the file when the response is sent."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import Endpoint, OffsetAndEpoch, ReplicaKey
from quorumd.node.api.quorum import QuorumApis
from quorumd.node.peers.address_book import Address
from quorumd.node.wire import snapshot_messages
from quorumd.raft.events import RequestReceived
from quorumd.raft.messages import SnapshotRequest, SnapshotResponse
from tests.support.log.small_logs import fresh_disk, open_log
from tests.support.log.snapshots import write_snapshot
from tests.support.node.api_harness import ApiHarness
from tests.support.node.parts import CLUSTER_ID
from tests.support.node.recording_session import request_of
from tests.support.node.scripted_discovery import ScriptedDiscovery
from tests.support.node.scripted_engine import ScriptedEngine

LEADER = Endpoint("CONTROLLER", "host-2", 9092)
SNAPSHOT, NEWER = OffsetAndEpoch(100, 3), OffsetAndEpoch(200, 3)


class SnapshotApiHarness(ApiHarness):
    """Node 2, the leader of epoch 5, with SNAPSHOT."""

    def __init__(self) -> None:
        self.disk = fresh_disk(1)
        write_snapshot(self.disk, "log", SNAPSHOT)
        self.log = open_log(self.disk, "log")
        self.path = self.log.snapshots.path(SNAPSHOT)
        file = self.disk.open(self.path)
        self.contents = file.read_at(0, file.size())
        super().__init__(
            engine=ScriptedEngine(leader_id=2, epoch=5),
            discovery=ScriptedDiscovery({2: Address("host-2", 9092)}),
            log=self.log,
        )
        self.apis = QuorumApis(self.context)

    def chunk(
        self,
        position: int = 0,
        limit: int = 1 << 20,
        snapshot: OffsetAndEpoch = SNAPSHOT,
        error: ErrorCode = ErrorCode.NONE,
    ) -> Any:
        """Return the partition of the response when the engine allows `limit` bytes."""
        request = SnapshotRequest(ReplicaKey(7), 5, snapshot, position, limit)
        message = snapshot_messages.snapshot_request_to_wire(request, CLUSTER_ID, 1)
        self.apis.fetch_snapshot(self.session, request_of(message, 1))
        event = self.events.pop()
        assert isinstance(event, RequestReceived)
        assert event.request == request
        response = SnapshotResponse(error, 2, 5, snapshot, position, limit)
        event.reply(response)
        (partition,) = self.session.responses[-1].topics[0].partitions
        leader = partition.current_leader
        assert (leader.leader_id, leader.leader_epoch) == (2, 5)
        assert (partition.snapshot_id.end_offset, partition.snapshot_id.epoch) == tuple(snapshot)
        assert partition.position == position
        return partition


@pytest.fixture
def harness() -> SnapshotApiHarness:
    return SnapshotApiHarness()


def test_chunks_make_up_the_file(harness: SnapshotApiHarness) -> None:
    size, received = len(harness.contents), b""
    while len(received) < size:
        chunk = harness.chunk(len(received), 77)
        assert (chunk.error_code, chunk.size) == (0, size)
        assert len(chunk.unaligned_records) == min(77, size - len(received))
        received += chunk.unaligned_records
    assert received == harness.contents


@pytest.mark.parametrize("beyond", [0, 1, 1 << 40])
def test_position_at_or_past_the_end_is_out_of_range(harness: SnapshotApiHarness, beyond: int) -> None:
    chunk = harness.chunk(len(harness.contents) + beyond)
    assert (chunk.error_code, chunk.unaligned_records) == (ErrorCode.POSITION_OUT_OF_RANGE, b"")


def test_unknown_snapshot_is_not_found(harness: SnapshotApiHarness) -> None:
    chunk = harness.chunk(snapshot=NEWER)
    assert (chunk.error_code, chunk.unaligned_records) == (ErrorCode.SNAPSHOT_NOT_FOUND, b"")


def test_snapshot_removed_during_a_transfer_is_not_found(harness: SnapshotApiHarness) -> None:
    harness.chunk()
    harness.disk.remove(harness.path)
    assert harness.chunk(1).error_code == ErrorCode.SNAPSHOT_NOT_FOUND


def test_read_error_of_a_snapshot_is_not_fatal(
    harness: SnapshotApiHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(file: Any, position: int, length: int) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(type(harness.disk.open(harness.path)), "read_at", failing)
    with caplog.at_level(logging.WARNING):
        assert harness.chunk().error_code == ErrorCode.SNAPSHOT_NOT_FOUND
    assert harness.path in caplog.text


def test_snapshot_is_not_read_if_the_engine_rejects_the_request(harness: SnapshotApiHarness) -> None:
    chunk = harness.chunk(error=ErrorCode.FENCED_LEADER_EPOCH)
    assert (chunk.error_code, chunk.size, chunk.unaligned_records) == (74, 0, b"")
