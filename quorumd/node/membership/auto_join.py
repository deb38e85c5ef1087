"""Makes an observer a voter without an operator (KIP-1186, controller.quorum.auto.join.enable).

An observer that has all records its leader has committed sends AddRaftVoter to the leader. If the voter with its node
id has another directory id, because that directory was lost or replaced, it sends RemoveRaftVoter first. The quorum
commits both changes: a blank disk never votes on its own decision.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf

from quorumd.errors import ErrorCode
from quorumd.ids import Endpoint
from quorumd.node.basics import NodeBasics, QuorumParts
from quorumd.node.peers.connection import Call, Failure
from quorumd.node.peers.leader_request import LeaderRequest
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages import add_raft_voter_request
from quorumd.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from quorumd.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from quorumd.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from quorumd.protocol.wire import Message

logger = logging.getLogger("quorumd.node")

PERIOD_IN_FETCH_TIMEOUTS = 3.0
"""Time between two requests, as in Kafka."""


class AutoJoin:
    """Requests a vote for this node's replica.

    `call_leader(call) -> bool` sends to the leader; False if no leader is known, or if it is this node.
    """

    def __init__(
        self,
        node: NodeBasics,
        quorum: QuorumParts,
        call_leader: Callable[[Call], bool],
    ) -> None:
        self._engine = quorum.engine
        self._clock = node.clock
        self._identity = quorum.identity
        self._own = quorum.own
        self._request_timeout_ms = node.settings.request_timeout_ms
        self._request = LeaderRequest(node.clock, call_leader, self._request_timeout_ms)
        self._period_ms = PERIOD_IN_FETCH_TIMEOUTS * node.settings.raft.fetch_timeout_ms
        self._requested_ms = -inf

    def update(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Request the next change towards a vote if this replica has none and has caught up.

        Called periodically with this node's own endpoints.
        """
        now = self._clock.now_ms()
        is_early = now - self._requested_ms < self._period_ms
        if self._request.is_pending or is_early or not self._is_caught_up(now):
            return
        recorded = self._engine.voters.current.by_id(self._own.id)
        if recorded is None:
            self._send(ApiKey.ADD_RAFT_VOTER, self._addition(endpoints), now)
        elif not recorded.key.matches(self._own):
            logger.warning(
                "the voter with id %d has directory id %s: requesting its removal, then a vote for %s",
                self._own.id,
                recorded.key.directory_id,
                self._own.directory_id,
            )
            removal = RemoveRaftVoterRequest(self._identity.cluster_id, *recorded.key)
            self._send(ApiKey.REMOVE_RAFT_VOTER, lambda version: removal, now)

    def _is_caught_up(self, now: float) -> bool:
        """Whether the log has all records that the leader is known to have committed, and names voters."""
        engine = self._engine
        committed = engine.leader_high_watermark
        return (
            engine.leader_id not in (-1, self._own.id)
            and bool(engine.voters.current.voters)
            and 0 < committed <= engine.high_watermark
            and engine.contact_ms(now) <= engine.contact_limit_ms
        )

    def _addition(self, endpoints: tuple[Endpoint, ...]) -> Callable[[int], Message]:
        """Build AddRaftVoter without waiting for the commit, which may depend on this node's own vote."""
        wire = add_raft_voter_request
        return lambda version: wire.AddRaftVoterRequest(
            self._identity.cluster_id,
            self._request_timeout_ms,
            *self._own,
            [wire.Listener(*each) for each in endpoints],
            version == 0,
        )

    def _send(self, api_key: int, build: Callable[[int], Message], now: float) -> None:
        if self._request.send(api_key, build, self._on_response, self._on_failure):
            self._requested_ms = now

    def _on_response(self, response: Message) -> None:
        assert isinstance(response, AddRaftVoterResponse | RemoveRaftVoterResponse)
        if response.error_code != ErrorCode.NONE:
            error = ErrorCode.describe(response.error_code)
            logger.info(
                "node %d is not a voter yet; retrying: %s: %s", self._own.id, error, response.error_message
            )

    def _on_failure(self, failure: Failure) -> None:
        logger.debug("node %d is not a voter yet; retrying: %s", self._own.id, failure.reason)
