"""Requests for other voters: AlterQuorum (KIP-595 draft), Add-, Remove- and UpdateRaftVoter (KIP-853).

The engine decides about the voters. What is decided here: who may ask, which cluster is meant, whether this node
is the one to ask, whether a new voter can be reached and speaks kraft.version 1, and how long a client waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from quorumd.controller.cluster_image import KRAFT_VERSION
from quorumd.errors import ErrorCode
from quorumd.ids import Endpoint
from quorumd.node import quorum_wire, voter_wire
from quorumd.node.cluster_identity import ClusterIdentity
from quorumd.node.error_answers import text_of
from quorumd.node.fetch_wire import REPLICA_DIRECTORY_VERSION
from quorumd.node.peers import Call, Failure
from quorumd.node.request_router import Handler
from quorumd.node.server_session import Session
from quorumd.node.statistics import NodeStatistics
from quorumd.ports import Clock
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import CLIENT_SOFTWARE_NAME, Request
from quorumd.protocol.messages.api_versions_request import ApiVersionsRequest
from quorumd.protocol.wire import Message
from quorumd.raft.effects import VotersAnswer
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import AddVoter, Event, RemoveVoter, UpdateVoter, VoterChange, VotersAsked
from quorumd.raft.voters import Voter

KRAFT_VERSION_OF_VOTERS = 1
"""Voters that change need this level of kraft.version (KIP-853)."""


class VoterRequests:
    """`leads()` says whether requests for the leader are for this node, `may_alter` who may change voters.

    `call(host, port, call)` sends to any address, `forward` to the leader. `listener_name` is the listener by
    which voters reach each other.
    """

    def __init__(
        self,
        engine: RaftEngine,
        clock: Clock,
        identity: ClusterIdentity,
        statistics: NodeStatistics,
        listener_name: str,
        request_timeout_ms: float,
        leads: Callable[[], bool],
        may_alter: Callable[[Session], bool],
        step: Callable[[Event], None],
        call: Callable[[str, int, Call], None],
        leader_endpoint: Callable[[int], Endpoint | None],
        forward: Handler,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._identity = identity
        self._statistics = statistics
        self._listener_name = listener_name
        self._request_timeout_ms = request_timeout_ms
        self._leads = leads
        self._may_alter = may_alter
        self._step = step
        self._call = call
        self._leader_endpoint = leader_endpoint
        self._forward = forward

    def handlers(self) -> Iterable[tuple[int, Handler]]:
        return (
            (ApiKey.ALTER_QUORUM, self.alter_quorum),
            (ApiKey.ADD_RAFT_VOTER, self.add_raft_voter),
            (ApiKey.REMOVE_RAFT_VOTER, self.remove_raft_voter),
            (ApiKey.UPDATE_RAFT_VOTER, self.update_raft_voter),
        )

    def alter_quorum(self, session: Session, request: Request) -> None:
        message: Any = request.message
        asked = self._asked(session, request, self._alter_quorum_answer(request), self._request_timeout_ms)
        if not self._is_for_this_node(asked):
            return
        partition = quorum_wire.only_partition(message.topics)
        if partition is None:
            asked.end(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            self._ask_engine(asked, voter_wire.target_from_wire(partition))

    def add_raft_voter(self, session: Session, request: Request) -> None:
        message: Any = request.message
        patience_ms = message.timeout_ms if message.timeout_ms > 0 else self._request_timeout_ms
        asked = self._asked(session, request, voter_wire.add_voter_answer, patience_ms)
        if not self._is_for_this_node(asked):
            return
        key = voter_wire.key_from_wire(message)
        endpoints = voter_wire.endpoints_from_wire(message)
        if key is None or endpoints is None:
            asked.end(
                ErrorCode.INVALID_REQUEST,
                "A new voter needs an id of at least 0, a directory id, and listeners with host and port.",
            )
            return
        reached_at = next((e for e in endpoints if e.name == self._listener_name), None)
        if reached_at is None:
            text = f"Voters reach each other by their listener {self._listener_name}; this one has none."
            asked.end(ErrorCode.INVALID_REQUEST, text)
            return
        change = AddVoter(Voter(key, endpoints), message.ack_when_committed)
        self._check_new_voter(asked, reached_at, change)

    def remove_raft_voter(self, session: Session, request: Request) -> None:
        message: Any = request.message
        asked = self._asked(session, request, voter_wire.remove_voter_answer, self._request_timeout_ms)
        if not self._is_for_this_node(asked):
            return
        key = voter_wire.key_from_wire(message)
        if key is None:
            asked.end(
                ErrorCode.INVALID_REQUEST, "A voter is named by an id of at least 0 and a directory id."
            )
        else:
            self._ask_engine(asked, RemoveVoter(key))

    def update_raft_voter(self, session: Session, request: Request) -> None:
        """Between voters, as Vote is: it is not forwarded, and the engine compares the epochs before all else."""
        message: Any = request.message
        asked = self._asked(session, request, self._update_voter_answer, self._request_timeout_ms)
        if not self._identity.accepts(message.cluster_id):
            asked.end(ErrorCode.INCONSISTENT_CLUSTER_ID)
            return
        key = voter_wire.key_from_wire(message)
        endpoints = voter_wire.endpoints_from_wire(message)
        versions = message.kraft_version_feature
        is_supported = (
            versions.min_supported_version <= KRAFT_VERSION_OF_VOTERS <= versions.max_supported_version
        )
        if key is None or not endpoints or not is_supported:
            asked.end(ErrorCode.INVALID_REQUEST)
        else:
            self._ask_engine(asked, UpdateVoter(Voter(key, endpoints), message.current_leader_epoch))

    def _is_for_this_node(self, asked: _Asked) -> bool:
        """Whether what an administrator asks for goes on here; if not, it is answered or forwarded."""
        message: Any = asked.request.message
        if not self._may_alter(asked.session):
            asked.end(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Changing voters needs ALTER on CLUSTER.")
        elif not self._identity.accepts(message.cluster_id):
            text = f"This is cluster {self._identity.cluster_id}, another one was meant."
            asked.end(ErrorCode.INCONSISTENT_CLUSTER_ID, text)
        elif self._leads():
            return True
        elif asked.session.asked_as_controller_client:
            asked.end_elsewhere()
        else:
            asked.give_up()
            self._forward(asked.session, asked.request)
        return False

    def _check_new_voter(self, asked: _Asked, reached_at: Endpoint, change: AddVoter) -> None:
        """A voter that nobody can reach, or that does not know of changing voters, would only cost a majority."""
        where = f"Node {change.voter.key.id} at {reached_at.host}:{reached_at.port}"

        def answered(answer: Any) -> None:
            features = answer.supported_features
            if answer.error_code != ErrorCode.NONE or not voter_wire.supports(
                features, KRAFT_VERSION, KRAFT_VERSION_OF_VOTERS
            ):
                text = f"{where} does not support {KRAFT_VERSION} {KRAFT_VERSION_OF_VOTERS}."
                asked.end(ErrorCode.INVALID_REQUEST, text)
            elif not voter_wire.can_be_followed(answer.api_keys):
                text = (
                    f"{where} could not be followed when it leads: it speaks neither FetchQuorumRecords nor Fetch "
                    f"v{REPLICA_DIRECTORY_VERSION}; upgrade it to Kafka 3.9 or later."
                )
                asked.end(ErrorCode.UNSUPPORTED_VERSION, text)
            else:
                self._ask_engine(asked, change)

        def failed(failure: Failure) -> None:
            asked.end(ErrorCode.REQUEST_TIMED_OUT, f"{where} cannot be reached: {failure.reason}.")

        question = ApiVersionsRequest(CLIENT_SOFTWARE_NAME, "1")
        deadline = min(asked.deadline_ms, self._clock.now_ms() + self._request_timeout_ms)
        call = Call(ApiKey.API_VERSIONS, lambda version: question, answered, failed, deadline)
        self._call(reached_at.host, reached_at.port, call)

    def _ask_engine(self, asked: _Asked, change: VoterChange) -> None:
        if not asked.is_over:
            self._step(VotersAsked(asked.came_of_it, change))

    def _asked(
        self,
        session: Session,
        request: Request,
        to_wire: Callable[[ErrorCode, str], Message],
        patience_ms: float,
    ) -> _Asked:
        return _Asked(session, request, to_wire, self._clock, patience_ms, self._statistics)

    def _alter_quorum_answer(self, request: Request) -> Callable[[ErrorCode, str], Message]:
        message: Any = request.message
        engine = self._engine
        return lambda error, text: voter_wire.alter_quorum_answer(
            message, error, text, engine.leader_id, engine.epoch
        )

    def _update_voter_answer(self, error: ErrorCode, text: str) -> Message:
        del text
        leader_id = self._engine.leader_id
        return voter_wire.update_voter_answer(
            error, leader_id, self._engine.epoch, self._leader_endpoint(leader_id)
        )


class _Asked:
    """One request under way: answered once, at the latest when its client's patience ends.

    Its outcome is not known then, nor when leadership is lost: neither says that nothing was done, so neither
    makes a forwarding node send it again.
    """

    def __init__(
        self,
        session: Session,
        request: Request,
        to_wire: Callable[[ErrorCode, str], Message],
        clock: Clock,
        patience_ms: float,
        statistics: NodeStatistics,
    ) -> None:
        self.session = session
        self.request = request
        self.deadline_ms = clock.now_ms() + patience_ms
        self.is_over = False
        self._to_wire = to_wire
        self._statistics = statistics
        self._timer = clock.call_at(self.deadline_ms, self._too_late)

    def came_of_it(self, answer: VotersAnswer) -> None:
        """What the engine says: the token of VotersAsked."""
        self.end(answer.error, answer.message)

    def end(self, error: ErrorCode, text: str = "") -> None:
        """Answer, if that has not happened yet."""
        if not self.is_over:
            self.session.answer(self.request, self._answer(error, text))

    def end_elsewhere(self) -> None:
        """Another node leads, and nothing has been done."""
        self.session.answer_not_leader(self.request, self._answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, ""))

    def give_up(self) -> None:
        """Somebody else answers."""
        self.is_over = True
        self._timer.cancel()

    def _answer(self, error: ErrorCode, text: str) -> Message:
        self.give_up()
        if error is not ErrorCode.NONE:
            self._statistics.count_error(self.request.api_key, int(error))
            text = text or text_of(error)
        return self._to_wire(error, text)

    def _too_late(self) -> None:
        self.end(
            ErrorCode.REQUEST_TIMED_OUT,
            "The voters have not committed it in time; the change may or may not be made.",
        )
