"""Changes of the voters: AlterQuorum (KIP-595 draft), AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter (KIP-853).

The engine decides about the change. The handlers check cluster id and leadership, and whether a new voter is
reachable and supports kraft.version 1, and they bound how long a client waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from quorumd.controller.cluster_image import KRAFT_VERSION
from quorumd.errors import ErrorCode
from quorumd.ids import Endpoint
from quorumd.node.api import voter_messages
from quorumd.node.api.context import ApiContext
from quorumd.node.api.error_responses import error_message
from quorumd.node.peers.connection import Call, Failure
from quorumd.node.statistics import NodeStatistics
from quorumd.node.wire import quorum_messages
from quorumd.node.wire.fetch_messages import REPLICA_DIRECTORY_VERSION
from quorumd.ports import Clock
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import CLIENT_SOFTWARE_NAME, Request
from quorumd.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from quorumd.protocol.messages.alter_quorum_request import AlterQuorumRequest
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.messages.api_versions_response import ApiVersionsResponse
from quorumd.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from quorumd.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from quorumd.protocol.routes import Route, Session
from quorumd.protocol.wire import Message
from quorumd.raft.effects import VoterChangeResult
from quorumd.raft.events import AddVoter, RemoveVoter, UpdateVoter, VoterChange, VoterChangeRequested
from quorumd.raft.voters import Voter

KRAFT_VERSION_OF_VOTERS = 1
"""The level of kraft.version that voter changes require (KIP-853)."""


class VoterApis:
    """Handles AlterQuorum, AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter."""

    def __init__(self, context: ApiContext) -> None:
        self._engine = context.quorum.engine
        self._clock = context.node.clock
        self._identity = context.quorum.identity
        self._statistics = context.node.statistics
        self._listener_name = context.node.settings.controller_listener_name
        self._request_timeout_ms = context.node.settings.request_timeout_ms
        self._role = context.quorum.role
        self._discovery = context.peers.discovery
        self._step = context.quorum.step
        self._call = context.peers.connections.call
        self._forward = context.execution.forwarder.forward

    def routes(self) -> Iterable[Route]:
        return (
            Route(AlterQuorumRequest, self.alter_quorum),
            Route(AddRaftVoterRequest, self.add_raft_voter),
            Route(RemoveRaftVoterRequest, self.remove_raft_voter),
            Route(UpdateRaftVoterRequest, self.update_raft_voter),
        )

    def alter_quorum(self, session: Session, request: Request[AlterQuorumRequest]) -> None:
        message = request.message
        if quorum_messages.names_too_many(message.topics):
            invalid = voter_messages.alter_quorum_response_of(message, ErrorCode.INVALID_REQUEST)
            session.respond(request, invalid)
            return
        pending = self._pending(
            session, request, self._alter_quorum_response(request), self._request_timeout_ms
        )
        if not self._is_local(pending, message.cluster_id):
            return
        partition = quorum_messages.only_partition(message.topics)
        if partition is None:
            pending.finish(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            self._request_change(pending, voter_messages.target_from_wire(partition))

    def add_raft_voter(self, session: Session, request: Request[AddRaftVoterRequest]) -> None:
        message = request.message
        timeout_ms = message.timeout_ms if message.timeout_ms > 0 else self._request_timeout_ms
        pending = self._pending(session, request, voter_messages.add_voter_response, timeout_ms)
        if not self._is_local(pending, message.cluster_id):
            return
        key = voter_messages.key_from_wire(message)
        endpoints = voter_messages.endpoints_from_wire(message)
        if key is None or endpoints is None:
            pending.finish(
                ErrorCode.INVALID_REQUEST,
                "A new voter needs a non-negative id, a directory id, and listeners with host and port.",
            )
            return
        own_endpoint = next((e for e in endpoints if e.name == self._listener_name), None)
        if own_endpoint is None:
            text = (
                f"Voters connect to each other on listener {self._listener_name}, which the new voter lacks."
            )
            pending.finish(ErrorCode.INVALID_REQUEST, text)
            return
        change = AddVoter(Voter(key, endpoints), message.ack_when_committed)
        self._check_new_voter(pending, own_endpoint, change)

    def remove_raft_voter(self, session: Session, request: Request[RemoveRaftVoterRequest]) -> None:
        message = request.message
        pending = self._pending(
            session, request, voter_messages.remove_voter_response, self._request_timeout_ms
        )
        if not self._is_local(pending, message.cluster_id):
            return
        key = voter_messages.key_from_wire(message)
        if key is None:
            pending.finish(
                ErrorCode.INVALID_REQUEST, "A voter is identified by a non-negative id and a directory id."
            )
        else:
            self._request_change(pending, RemoveVoter(key))

    def update_raft_voter(self, session: Session, request: Request[UpdateRaftVoterRequest]) -> None:
        """Handle a request between voters, like Vote: it is not forwarded, and the engine checks its epoch first."""
        message = request.message
        pending = self._pending(session, request, self._update_voter_response, self._request_timeout_ms)
        if not self._identity.accepts(message.cluster_id):
            pending.finish(ErrorCode.INCONSISTENT_CLUSTER_ID)
            return
        key = voter_messages.key_from_wire(message)
        endpoints = voter_messages.endpoints_from_wire(message)
        versions = message.kraft_version_feature
        is_supported = (
            versions.min_supported_version <= KRAFT_VERSION_OF_VOTERS <= versions.max_supported_version
        )
        if key is None or not endpoints or not is_supported:
            pending.finish(ErrorCode.INVALID_REQUEST)
        else:
            self._request_change(pending, UpdateVoter(Voter(key, endpoints), message.current_leader_epoch))

    def _is_local(self, pending: _PendingRequest, cluster_id: str | None) -> bool:
        """Whether this node handles the request; otherwise refuse or forward it."""
        if not self._identity.accepts(cluster_id):
            text = f"The cluster id of this node is {self._identity.cluster_id}; the request names another."
            pending.finish(ErrorCode.INCONSISTENT_CLUSTER_ID, text)
        elif self._role.is_leader:
            return True
        elif pending.session.origin.is_controller_client:
            pending.respond_not_leader()
        else:
            pending.release()
            self._forward(pending.session, pending.request)
        return False

    def _check_new_voter(self, pending: _PendingRequest, own_endpoint: Endpoint, change: AddVoter) -> None:
        """Refuse a voter that is unreachable or does not support voter changes: it would endanger the majority."""
        where = f"Node {change.voter.key.id} at {own_endpoint.host}:{own_endpoint.port}"

        def on_response(response: Message) -> None:
            assert isinstance(response, ApiVersionsResponse)
            features = response.supported_features
            if response.error_code != ErrorCode.NONE or not voter_messages.supports_feature(
                features, KRAFT_VERSION, KRAFT_VERSION_OF_VOTERS
            ):
                text = f"{where} does not support {KRAFT_VERSION} {KRAFT_VERSION_OF_VOTERS}."
                pending.finish(ErrorCode.INVALID_REQUEST, text)
            elif not voter_messages.is_followable(response.api_keys):
                text = (
                    f"{where} supports neither FetchQuorumRecords nor Fetch v{REPLICA_DIRECTORY_VERSION}, so no node "
                    "could follow it as leader; upgrade it to Kafka 3.9 or later."
                )
                pending.finish(ErrorCode.UNSUPPORTED_VERSION, text)
            else:
                self._request_change(pending, change)

        def on_failure(failure: Failure) -> None:
            pending.finish(ErrorCode.REQUEST_TIMED_OUT, f"{where} cannot be reached: {failure.reason}.")

        api_versions_request = ApiVersionsRequest(CLIENT_SOFTWARE_NAME, "1")
        deadline = min(pending.deadline_ms, self._clock.now_ms() + self._request_timeout_ms)
        call = Call(
            ApiKey.API_VERSIONS, lambda version: api_versions_request, on_response, on_failure, deadline
        )
        self._call(own_endpoint.host, own_endpoint.port, call)

    def _request_change(self, pending: _PendingRequest, change: VoterChange) -> None:
        if not pending.is_done:
            self._step(VoterChangeRequested(pending.on_result, change))

    def _pending(
        self,
        session: Session,
        request: Request[Message],
        to_wire: Callable[[ErrorCode, str], Message],
        timeout_ms: float,
    ) -> _PendingRequest:
        return _PendingRequest(session, request, to_wire, self._clock, timeout_ms, self._statistics)

    def _alter_quorum_response(
        self, request: Request[AlterQuorumRequest]
    ) -> Callable[[ErrorCode, str], Message]:
        message = request.message
        engine = self._engine
        return lambda error, text: voter_messages.alter_quorum_response_of(
            message, error, text, engine.leader_id, engine.epoch
        )

    def _update_voter_response(self, error: ErrorCode, text: str) -> Message:
        del text
        leader_id = self._engine.leader_id
        return voter_messages.update_voter_response(
            error, leader_id, self._engine.epoch, self._discovery.endpoint_of(leader_id)
        )


class _PendingRequest:
    """A request in progress. It gets exactly one response, no later than its deadline.

    After the deadline or a loss of leadership the outcome is unknown, so a forwarding node does not retry.
    """

    def __init__(
        self,
        session: Session,
        request: Request[Message],
        to_wire: Callable[[ErrorCode, str], Message],
        clock: Clock,
        timeout_ms: float,
        statistics: NodeStatistics,
    ) -> None:
        self.session = session
        self.request = request
        self.deadline_ms = clock.now_ms() + timeout_ms
        self.is_done = False
        self._to_wire = to_wire
        self._statistics = statistics
        self._timer = clock.call_at(self.deadline_ms, self._on_timeout)

    def on_result(self, response: VoterChangeResult) -> None:
        """Handle the engine's result; this method is the token of VoterChangeRequested."""
        self.finish(response.error, response.message)

    def finish(self, error: ErrorCode, text: str = "") -> None:
        """Respond, unless a response was sent already."""
        if not self.is_done:
            self.session.respond(self.request, self._response(error, text))

    def respond_not_leader(self) -> None:
        """Respond that another node leads and the request had no effect."""
        self.session.respond_not_leader(self.request, self._response(ErrorCode.NOT_LEADER_OR_FOLLOWER, ""))

    def release(self) -> None:
        """Send no response here: another part of the node sends it."""
        self.is_done = True
        self._timer.cancel()

    def _response(self, error: ErrorCode, text: str) -> Message:
        self.release()
        if error is not ErrorCode.NONE:
            self._statistics.count_error(self.request.api_key, int(error))
            text = text or error_message(error)
        return self._to_wire(error, text)

    def _on_timeout(self) -> None:
        self.finish(
            ErrorCode.REQUEST_TIMED_OUT,
            "The voters did not commit the change in time; it may still take effect.",
        )
