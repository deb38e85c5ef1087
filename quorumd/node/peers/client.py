"""Sends the engine's requests to other nodes and returns the responses as events."""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from typing import Any

from quorumd.errors import ErrorCode, MalformedMessage
from quorumd.ids import Endpoint
from quorumd.node.basics import NodeBasics, QuorumParts
from quorumd.node.peers.address_book import Address
from quorumd.node.peers.connection import Call, Failure, Purpose
from quorumd.node.peers.connections import PeerConnections
from quorumd.node.peers.contacts import PeerContacts
from quorumd.node.peers.discovery import Discovery
from quorumd.node.wire import fetch_messages, quorum_messages, snapshot_messages
from quorumd.node.wire.fetched_records import decode_fetched
from quorumd.node.wire.voter_records import VoterRecord
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages import (
    begin_quorum_epoch_response,
    end_quorum_epoch_response,
    fetch_quorum_records_response,
    fetch_response,
    fetch_snapshot_response,
    vote_response,
)
from quorumd.protocol.messages.describe_node_request import DescribeNodeRequest
from quorumd.protocol.wire import Message
from quorumd.raft.effects import Send
from quorumd.raft.events import PeerRequestFailed, ResponseReceived
from quorumd.raft.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    FetchRequest,
    FetchResponse,
    Request,
    Response,
    SnapshotRequest,
    VoteRequest,
)

logger = logging.getLogger("quorumd.peers")

QuorumResponse = (
    vote_response.VoteResponse
    | begin_quorum_epoch_response.BeginQuorumEpochResponse
    | end_quorum_epoch_response.EndQuorumEpochResponse
    | fetch_response.FetchResponse
    | fetch_quorum_records_response.FetchQuorumRecordsResponse
    | fetch_snapshot_response.FetchSnapshotResponse
)
RequestPlan = tuple[int, Callable[[int], Message], Callable[[Any], Response | ErrorCode]]
"""API key, builder of the request for a version, and parser of the response."""


class PeerClient:
    """Sends the engine's requests. The engine gets exactly one event per request."""

    def __init__(
        self,
        node: NodeBasics,
        quorum: QuorumParts,
        connections: PeerConnections,
        discovery: Discovery,
        on_voter_records: Callable[[list[VoterRecord]], None],
        own_endpoints: tuple[Endpoint, ...],
    ) -> None:
        self.contacts = PeerContacts()
        self._connections = connections
        self._discovery = discovery
        self._clock = node.clock
        self._log = quorum.log
        self._identity = quorum.identity
        self._statistics = node.statistics
        self._step = quorum.step
        self._on_voter_records = on_voter_records
        self._own_endpoints = own_endpoints
        self._request_timeout_ms = node.settings.request_timeout_ms
        self._reported_refusals: dict[int, ErrorCode] = {}
        """The last logged error of each peer, so that it is not logged again."""
        self._prepared: tuple[Send, Call] | None = None
        """An encoded request that waits for a flush: at most one, the follower's fetch."""

    def call_node(self, node_id: int, call: Call, purpose: Purpose) -> bool:
        """Send a request to a node by id. Returns False, without a callback, if its address is not known."""
        address = self._discovery.address_of(node_id)
        if address is None:
            return False
        self._connections.call(address.host, address.port, call, purpose)
        return True

    def send(self, send: Send) -> None:
        """Send a request of the engine."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared[0] is send:
            call = prepared[1]
        else:
            call = self._raft_call(send)
        call.deadline_ms = self._deadline(send.request)
        if not self.call_node(send.peer, call, _purpose(send.request)):
            self.contacts.failed(send.peer, "its address is not known", self._clock.now_ms())
            self._clock.call_soon(lambda: self._step(PeerRequestFailed(send.peer, send.request)))

    def probe(self, node_id: int) -> None:
        """Send a request only to record whether a peer responds."""

        def failed(failure: Failure) -> None:
            self._record_contact(node_id, None if failure.unsupported else failure.reason)

        call = Call(
            ApiKey.DESCRIBE_NODE,
            lambda version: DescribeNodeRequest(),
            lambda response: self._record_contact(node_id, None),
            failed,
            self._clock.now_ms() + self._request_timeout_ms,
        )
        self.call_node(node_id, call, Purpose.DISCOVERY)

    def prepare(self, send: Send) -> None:
        """Encode a request that will probably be sent soon, if its connection is established."""
        address = self._discovery.address_of(send.peer)
        if address is None:
            return
        connection = self._connections.get(address.host, address.port, _purpose(send.request))
        if connection is not None:
            call = self._raft_call(send)
            connection.prepare(call)
            self._prepared = (send, call)

    def _raft_call(self, send: Send) -> Call:
        """Build the call for a request, with stock Fetch as fallback for a leader without FetchQuorumRecords."""
        peer, request = send.peer, send.request
        fallback = None
        if isinstance(request, FetchRequest):
            fallback = self._make_call(peer, request, self._stock_fetch_plan(request))
        return self._make_call(peer, request, self._request_plan(request), fallback)

    def _make_call(
        self, peer: int, request: Request, plan: RequestPlan, fallback: Call | None = None
    ) -> Call:
        api_key, build, from_wire = plan

        def on_response(message: Message) -> None:
            assert isinstance(message, QuorumResponse)
            self._record_contact(peer, None)
            response = from_wire(message)
            if message.node_endpoints and not isinstance(response, ErrorCode):
                self._learn_endpoints(message)
            if isinstance(response, ErrorCode):
                self._report_refusal(peer, request, response)
                self._step(PeerRequestFailed(peer, request))
            elif isinstance(response, FetchResponse):
                self._on_fetch_response(peer, request, response)
            else:
                self._step(ResponseReceived(peer, request, response))

        def failed(failure: Failure) -> None:
            self._record_contact(peer, None if failure.unsupported else failure.reason)
            if failure.unsupported and isinstance(request, FetchRequest):
                self._report_unfollowable(peer, failure.reason)
            self._step(PeerRequestFailed(peer, request, failure.unsupported, failure.refused))

        # `send` sets the deadline.
        return Call(api_key, build, on_response, failed, inf, fallback)

    def _learn_endpoints(self, message: QuorumResponse) -> None:
        """Record the leader's endpoint in a response; gossip may not have spread it yet."""
        for endpoint in message.node_endpoints:
            self._discovery.learn(endpoint.node_id, Address(endpoint.host, endpoint.port))

    def _deadline(self, request: Request) -> float:
        """The deadline of the response; the peer may delay the response to a fetch by `max_wait_ms`."""
        delay_ms = request.max_wait_ms if isinstance(request, FetchRequest) else 0
        return self._clock.now_ms() + self._request_timeout_ms + delay_ms

    def _stock_fetch_plan(self, request: FetchRequest) -> RequestPlan:
        cluster_id = self._identity.cluster_id
        return (
            ApiKey.FETCH,
            lambda version: fetch_messages.stock_fetch_to_wire(request, cluster_id, version),
            fetch_messages.stock_fetch_response_from_wire,
        )

    def _request_plan(self, request: Request) -> RequestPlan:
        cluster_id = self._identity.cluster_id
        if isinstance(request, FetchRequest):
            message = fetch_messages.fetch_to_wire(request, cluster_id)
            return (
                ApiKey.FETCH_QUORUM_RECORDS,
                lambda version: message,
                fetch_messages.fetch_response_from_wire,
            )
        if isinstance(request, SnapshotRequest):
            return (
                ApiKey.FETCH_SNAPSHOT,
                lambda version: snapshot_messages.snapshot_request_to_wire(request, cluster_id, version),
                snapshot_messages.snapshot_response_from_wire,
            )
        if isinstance(request, VoteRequest):
            return (
                ApiKey.VOTE,
                lambda version: quorum_messages.vote_to_wire(request, cluster_id, version),
                quorum_messages.vote_response_from_wire,
            )
        if isinstance(request, BeginEpochRequest):
            request.endpoints = self._own_endpoints
            request.boot_timestamp = self._discovery.own_boot_timestamp
            return (
                ApiKey.BEGIN_QUORUM_EPOCH,
                lambda version: quorum_messages.begin_to_wire(request, cluster_id, version),
                quorum_messages.leader_response_from_wire,
            )
        assert isinstance(request, EndEpochRequest)
        return (
            ApiKey.END_QUORUM_EPOCH,
            lambda version: quorum_messages.end_to_wire(request, cluster_id, version, self._own_endpoints),
            quorum_messages.leader_response_from_wire,
        )

    def _report_refusal(self, peer: int, request: Request, error: ErrorCode) -> None:
        """Log an error once: a node of another cluster returns it to every request, forever."""
        if self._reported_refusals.get(peer) is not error:
            self._reported_refusals[peer] = error
            logger.warning("node %d rejects %s: %s", peer, type(request).__name__, ErrorCode.describe(error))

    def _report_unfollowable(self, peer: int, reason: str) -> None:
        """Log once that a node cannot be followed. It may still be elected, and then no quorumd node replicates its
        records: an operator must replace it."""
        if self._reported_refusals.get(peer) is not ErrorCode.UNSUPPORTED_VERSION:
            self._reported_refusals[peer] = ErrorCode.UNSUPPORTED_VERSION
            logger.error(
                "node %d cannot be followed: it supports neither FetchQuorumRecords nor Fetch v%d (%s); upgrade it, "
                "or replace it as a voter",
                peer,
                fetch_messages.REPLICA_DIRECTORY_VERSION,
                reason,
            )

    def _record_contact(self, peer: int, failure: str | None) -> None:
        now, reachable = self._clock.now_ms(), failure is None
        if failure is None:
            self.contacts.responded(peer, now)
        else:
            self.contacts.failed(peer, failure, now)
        if self._discovery.is_reachable(peer) != reachable:
            self._discovery.mark_reachable(peer, reachable)

    def _on_fetch_response(self, peer: int, request: Request, response: FetchResponse) -> None:
        """Validate the records of a leader before the engine gets them."""
        if not response.records:
            self._step(ResponseReceived(peer, request, response))
            return
        try:
            fetched = decode_fetched(response.records)
        except MalformedMessage as error:
            logger.error("node %d sent invalid records: %s", peer, error)
            self._step(PeerRequestFailed(peer, request))
            return
        response.batches = fetched.batches
        before = self._log.end_offset
        self._step(ResponseReceived(peer, request, response))
        appended = range(before, self._log.end_offset)
        self._statistics.fetched_records += len(appended)
        # The engine may have rejected the batches: only voter records that were appended count.
        found = [record for record in fetched.voter_records if record.offset in appended]
        if found:
            self._on_voter_records(found)


def _purpose(request: Request) -> Purpose:
    return Purpose.FETCH if isinstance(request, FetchRequest | SnapshotRequest) else Purpose.QUORUM
