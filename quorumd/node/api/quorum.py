"""The APIs of the quorum: Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchQuorumRecords, FetchSnapshot and
DescribeQuorum."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from math import inf
from types import ModuleType
from typing import Any, TypeVar

from quorumd.errors import ErrorCode, StorageError
from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC, ZERO_UUID, Endpoint
from quorumd.node.api.context import ApiContext
from quorumd.node.api.endpoints import NodeEndpoints
from quorumd.node.statistics import NodeStatistics
from quorumd.node.wire import fetch_messages, quorum_messages, snapshot_messages
from quorumd.ports import ANONYMOUS
from quorumd.protocol.apis import APIS, RAFT_FETCH_VERSION
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import (
    begin_quorum_epoch_response,
    describe_quorum_response,
    end_quorum_epoch_response,
    fetch_quorum_records_response,
    fetch_response,
    fetch_snapshot_response,
    vote_response,
)
from quorumd.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from quorumd.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from quorumd.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from quorumd.protocol.messages.fetch_quorum_records_request import FetchQuorumRecordsRequest
from quorumd.protocol.messages.fetch_request import FetchRequest
from quorumd.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from quorumd.protocol.messages.vote_request import VoteRequest
from quorumd.protocol.routes import Route, Session
from quorumd.protocol.wire import Message
from quorumd.raft.description import ReplicaDescription
from quorumd.raft.events import RequestReceived
from quorumd.raft.messages import FetchResponse, LeaderResponse, Response, SnapshotResponse, VoteResponse
from quorumd.raft.messages import Request as RaftRequest

logger = logging.getLogger("quorumd.node")

P = TypeVar("P", bound=quorum_messages.Partition)
ToWire = Callable[[str, Request[Message], Any], Message]
"""(listener, request, the engine's response) -> message. Reads records and snapshot chunks just before they are
sent."""

DIRECTORY_ID_VERSION = 2
"""The first version of DescribeQuorum with directory ids, error messages and endpoints."""


class PendingResponse:
    """The `reply` of a RequestReceived: writes the engine's response to the connection of the request."""

    __slots__ = ("_request", "_session", "_statistics", "_to_wire")

    def __init__(
        self, session: Session, request: Request[Message], statistics: NodeStatistics, to_wire: ToWire
    ) -> None:
        self._session = session
        self._request = request
        self._statistics = statistics
        self._to_wire = to_wire

    def __call__(self, response: Response) -> None:
        """Send the response. Raises StorageError if the log cannot be read."""
        request = self._request
        if response.error is not ErrorCode.NONE:
            self._statistics.count_error(request.api_key, int(response.error))
        self._session.respond_immediately(
            request, self._to_wire(self._session.origin.listener, request, response)
        )


class QuorumApis:
    """Checks the cluster id and the partition, and passes requests to the engine; see `PendingResponse`."""

    def __init__(self, context: ApiContext) -> None:
        self._engine = context.quorum.engine
        self._log = context.quorum.log
        self._clock = context.node.clock
        self._identity = context.quorum.identity
        self._statistics = context.node.statistics
        self._discovery = context.peers.discovery
        self._endpoints = NodeEndpoints(context)
        self._role = context.quorum.role
        self._step = context.quorum.step
        self._forward = context.execution.forwarder.forward

    def routes(self) -> Iterable[Route]:
        return (
            Route(VoteRequest, self.vote),
            Route(BeginQuorumEpochRequest, self.begin_quorum_epoch),
            Route(EndQuorumEpochRequest, self.end_quorum_epoch),
            Route(FetchQuorumRecordsRequest, self.fetch_quorum_records),
            Route(FetchRequest, self.fetch, RAFT_FETCH_VERSION),
            Route(FetchSnapshotRequest, self.fetch_snapshot),
            Route(DescribeQuorumRequest, self.describe_quorum),
        )

    def vote(self, session: Session, request: Request[VoteRequest]) -> None:
        message, wire = request.message, vote_response
        partition = self._accepted_partition(
            session, request, message.cluster_id, message.topics, wire, wire.VoteResponse
        )
        if partition is None:
            return
        engine_request = quorum_messages.vote_from_wire(message, partition)
        self._step(self._event(session, request, engine_request, self._vote_response))

    def begin_quorum_epoch(self, session: Session, request: Request[BeginQuorumEpochRequest]) -> None:
        message, wire = request.message, begin_quorum_epoch_response
        partition = self._accepted_partition(
            session, request, message.cluster_id, message.topics, wire, wire.BeginQuorumEpochResponse
        )
        if partition is None:
            return
        engine_request = quorum_messages.begin_from_wire(message, partition)
        event = self._event(session, request, engine_request, self._begin_response)
        if self._engine.accepts_leader(event, self._clock.now_ms()):
            # The engine's first fetch needs the endpoint of the leader.
            self._discovery.learn_leader(engine_request, self._log.end_offset)
        self._step(event)

    def end_quorum_epoch(self, session: Session, request: Request[EndQuorumEpochRequest]) -> None:
        message, wire = request.message, end_quorum_epoch_response
        partition = self._accepted_partition(
            session, request, message.cluster_id, message.topics, wire, wire.EndQuorumEpochResponse
        )
        if partition is not None:
            engine_request = quorum_messages.end_from_wire(message, partition)
            self._step(self._event(session, request, engine_request, self._end_response))

    def fetch_quorum_records(self, session: Session, request: Request[FetchQuorumRecordsRequest]) -> None:
        message = request.message
        if not self._identity.accepts(message.cluster_id):
            response = fetch_quorum_records_response.FetchQuorumRecordsResponse
            self._refuse_cluster(session, request, response)
            return
        engine_request = fetch_messages.fetch_from_wire(message)
        if message.epoch_token and message.epoch_token == self._engine.epoch_token:
            session.origin.is_peer = True
        self._step(self._event(session, request, engine_request, self._fetch_records_response))

    def fetch(self, session: Session, request: Request[FetchRequest]) -> None:
        """Handle a stock Fetch of the metadata log from observers and consumers of stock Kafka."""
        message, version = request.message, request.api_version
        if not self._identity.accepts(message.cluster_id):
            self._refuse_cluster(session, request, _fetch_error)
            return
        engine_request = fetch_messages.stock_fetch_from_wire(message, version)
        if engine_request is None:
            if quorum_messages.names_too_many(message.topics):
                session.respond(request, _fetch_error(int(ErrorCode.INVALID_REQUEST)))
            else:
                session.respond(request, fetch_messages.stock_fetch_error(message, version))
            return
        self._step(self._event(session, request, engine_request, self._fetch_response))

    def fetch_snapshot(self, session: Session, request: Request[FetchSnapshotRequest]) -> None:
        """Send a chunk of a snapshot (KIP-630) to a quorumd follower or a stock observer."""
        message = request.message
        if not self._identity.accepts(message.cluster_id):
            self._refuse_cluster(session, request, _fetch_snapshot_error)
            return
        engine_request = snapshot_messages.snapshot_request_from_wire(message)
        if engine_request is None:
            if quorum_messages.names_too_many(message.topics):
                session.respond(request, _fetch_snapshot_error(int(ErrorCode.INVALID_REQUEST)))
            else:
                session.respond(request, snapshot_messages.snapshot_error(message))
            return
        self._step(self._event(session, request, engine_request, self._snapshot_chunk))

    def describe_quorum(self, session: Session, request: Request[DescribeQuorumRequest]) -> None:
        """Describe the quorum as its leader. Other nodes forward the request, or name the leader.

        A leader that is handing over leadership or is no longer a voter forwards too: stock tools fail if the leader
        is not a voter.
        """
        message = request.message
        wire = describe_quorum_response
        if quorum_messages.names_too_many(message.topics):
            session.respond(request, wire.DescribeQuorumResponse(int(ErrorCode.INVALID_REQUEST)))
            return
        is_leader = self._role.is_leader
        if not is_leader and not session.origin.is_controller_client:
            self._forward(session, request)
            return
        if quorum_messages.only_partition(message.topics) is None:
            topics = quorum_messages.error_topics(wire, message.topics, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            session.respond(request, wire.DescribeQuorumResponse(0, None, topics))
            return
        engine = self._engine
        partition = wire.PartitionData(
            METADATA_PARTITION,
            0,
            None,
            engine.leader_id,
            engine.epoch,
            engine.high_watermark,
        )
        nodes = []
        if is_leader:
            description = engine.describe(self._clock.now_ms())
            version = request.api_version
            partition.current_voters = [self._replica_state(r, version) for r in description.voters]
            partition.observers = [self._replica_state(r, version) for r in description.observers]
            target = engine.voters.target
            partition.target_voters = None if target is None else [wire.TargetVoter(v) for v in target]
            nodes = self._voter_nodes()
        else:
            partition.error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if request.api_version >= DIRECTORY_ID_VERSION:
                partition.error_message = "This node is not the leader of the quorum."
        topics = [wire.TopicData(METADATA_TOPIC, [partition])]
        if request.api_version < DIRECTORY_ID_VERSION:
            nodes = []
        session.respond(request, wire.DescribeQuorumResponse(0, None, topics, nodes))

    def _replica_state(
        self, replica: ReplicaDescription, version: int
    ) -> describe_quorum_response.ReplicaState:
        now = self._clock.wall_ms()
        fetched, caught_up = replica.last_fetch_ms_ago, replica.last_caught_up_ms_ago
        return describe_quorum_response.ReplicaState(
            replica.key.id,
            replica.key.directory_id if version >= DIRECTORY_ID_VERSION else ZERO_UUID,
            replica.log_end_offset,
            -1 if fetched == inf else now - int(fetched),
            -1 if caught_up == inf else now - int(caught_up),
        )

    def _voter_nodes(self) -> list[describe_quorum_response.Node]:
        wire = describe_quorum_response
        return [
            wire.Node(voter.key.id, [wire.Listener(e.name, e.host, e.port) for e in voter.endpoints])
            for voter in self._engine.voters.current.voters
        ]

    def _accepted_partition(
        self,
        session: Session,
        request: Request[Message],
        cluster_id: str | None,
        topics: Sequence[quorum_messages.Topic[P]],
        wire: ModuleType,
        response_class: Callable[..., Message],
    ) -> P | None:
        """Return the partition of the metadata log. For another cluster or partition, send the error and return
        None."""
        if not self._identity.accepts(cluster_id):
            self._refuse_cluster(session, request, response_class)
            return None
        partition = quorum_messages.only_partition(topics)
        if partition is not None:
            return partition
        if quorum_messages.names_too_many(topics):
            session.respond(request, response_class(int(ErrorCode.INVALID_REQUEST)))
        else:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            session.respond(request, response_class(0, quorum_messages.error_topics(wire, topics, error)))
        return None

    def _event(
        self, session: Session, request: Request[Any], engine_request: RaftRequest, to_wire: ToWire
    ) -> RequestReceived:
        reply = PendingResponse(session, request, self._statistics, to_wire)
        names_cluster = self._identity.is_named_by(request.message.cluster_id)
        return RequestReceived(
            reply, engine_request, names_cluster, session.origin.peer, session.origin.principal != ANONYMOUS
        )

    def _vote_response(self, listener: str, request: Request[Message], response: VoteResponse) -> Message:
        return quorum_messages.vote_response_to_wire(response, self._endpoint(listener, request, response, 1))

    def _begin_response(self, listener: str, request: Request[Message], response: LeaderResponse) -> Message:
        return quorum_messages.leader_response_to_wire(
            begin_quorum_epoch_response,
            response,
            self._endpoint(listener, request, response, 1),
            request.api_version,
        )

    def _end_response(self, listener: str, request: Request[Message], response: LeaderResponse) -> Message:
        return quorum_messages.leader_response_to_wire(
            end_quorum_epoch_response,
            response,
            self._endpoint(listener, request, response, 1),
            request.api_version,
        )

    def _fetch_records_response(
        self, listener: str, request: Request[Message], response: FetchResponse
    ) -> Message:
        return fetch_messages.fetch_response_to_wire(
            response, self._read(response), self._endpoint(listener, request, response, 0)
        )

    def _fetch_response(self, listener: str, request: Request[Message], response: FetchResponse) -> Message:
        return fetch_messages.stock_fetch_response_to_wire(
            response,
            self._read(response),
            self._endpoint(listener, request, response, 0),
            request.api_version,
        )

    def _read(self, response: FetchResponse) -> bytes:
        """The records of a fetch response, read just before it is sent."""
        if response.read_start_offset < 0:
            return b""
        max_offset = response.read_max_offset if response.read_max_offset >= 0 else None
        return self._log.read(response.read_start_offset, response.read_limit, max_offset=max_offset)

    def _snapshot_chunk(
        self, listener: str, request: Request[Message], response: SnapshotResponse
    ) -> fetch_snapshot_response.FetchSnapshotResponse:
        """The response of the engine with the data of the file, read just before it is sent."""
        error, size, data = response.error, 0, b""
        if error is ErrorCode.NONE:
            found = chunk = None
            try:
                found = self._log.snapshots.size(response.snapshot)
                chunk = self._log.snapshots.read(response.snapshot, response.position, response.read_limit)
            except StorageError as fault:
                logger.warning("%s; this snapshot is not served", fault)
            if found is None or chunk is None:
                error = ErrorCode.SNAPSHOT_NOT_FOUND
            elif response.position >= found:
                error = ErrorCode.POSITION_OUT_OF_RANGE
            else:
                size, data = found, chunk
        leader = self._endpoints.endpoint_of(response.leader_id, listener)
        return snapshot_messages.snapshot_response_to_wire(
            response, error, size, data, leader, request.api_version
        )

    def _endpoint(
        self, listener: str, request: Request[Message], response: Response, min_version: int
    ) -> Endpoint | None:
        if request.api_version < min_version:
            return None
        return self._endpoints.endpoint_of(response.leader_id, listener)

    def _refuse_cluster(
        self, session: Session, request: Request[Message], response: Callable[..., Message]
    ) -> None:
        self._statistics.count_error(request.api_key, int(ErrorCode.INCONSISTENT_CLUSTER_ID))
        logger.debug(
            "refused %s from %s: it names another cluster", APIS[request.api_key].name, session.origin.peer
        )
        session.respond(request, response(error_code=int(ErrorCode.INCONSISTENT_CLUSTER_ID)))


def _fetch_snapshot_error(error_code: int) -> fetch_snapshot_response.FetchSnapshotResponse:
    return fetch_snapshot_response.FetchSnapshotResponse(error_code=error_code)


def _fetch_error(error_code: int) -> fetch_response.FetchResponse:
    return fetch_response.FetchResponse(error_code=error_code)
