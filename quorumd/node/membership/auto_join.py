"""Becoming a voter without an operator (KIP-1186, controller.quorum.auto.join.enable).

An observer that has what its leader has committed requests its vote of the leader. Where the vote of its node is that
of another data folder, which was lost or replaced, it has that one removed first. Both are changes of the voters that
the quorum commits: a blank disk gets no vote by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from typing import Any

from quorumd.errors import ErrorCode
from quorumd.ids import Endpoint, ReplicaKey
from quorumd.node.identity.cluster_identity import ClusterIdentity
from quorumd.node.peers.connection import Call, Failure
from quorumd.node.peers.leader_request import LeaderRequest
from quorumd.ports import Clock
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages import add_raft_voter_request
from quorumd.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from quorumd.raft.engine import RaftEngine

logger = logging.getLogger("quorumd.node")

PERIOD_IN_FETCH_TIMEOUTS = 3.0
"""Between two requests, as in Kafka."""


class AutoJoin:
    """`own`: this replica. `call_leader(call) -> bool` sends to the leader; False when none is known, or it is this
    node. `look(endpoint)` is called now and then, with where this node is reached."""

    def __init__(
        self,
        engine: RaftEngine,
        clock: Clock,
        identity: ClusterIdentity,
        own: ReplicaKey,
        call_leader: Callable[[Call], bool],
        fetch_timeout_ms: float,
        request_timeout_ms: int,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._identity = identity
        self._own = own
        self._request = LeaderRequest(clock, call_leader, request_timeout_ms)
        self._period_ms = PERIOD_IN_FETCH_TIMEOUTS * fetch_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._requested_ms = -inf

    def update(self, endpoint: Endpoint) -> None:
        """Request the next change on the way to a vote, if this replica has none and has caught up."""
        now = self._clock.now_ms()
        is_early = now - self._requested_ms < self._period_ms
        if self._request.is_pending or is_early or not self._is_caught_up(now):
            return
        recorded = self._engine.voters.current.by_id(self._own.id)
        if recorded is None:
            self._send(ApiKey.ADD_RAFT_VOTER, self._addition(endpoint), now)
        elif not recorded.key.matches(self._own):
            logger.warning(
                "the vote of node %d is that of directory id %s: requesting its removal, then a vote for %s",
                self._own.id,
                recorded.key.directory_id,
                self._own.directory_id,
            )
            removal = RemoveRaftVoterRequest(self._identity.cluster_id, *recorded.key)
            self._send(ApiKey.REMOVE_RAFT_VOTER, lambda version: removal, now)

    def _is_caught_up(self, now: float) -> bool:
        """Whether the log has all that its leader is known to have committed, the voters among it."""
        engine = self._engine
        committed = engine.leader_high_watermark
        return (
            engine.leader_id not in (-1, self._own.id)
            and bool(engine.voters.current.voters)
            and 0 < committed <= engine.high_watermark
            and engine.contact_ms(now) <= engine.contact_limit_ms
        )

    def _addition(self, endpoint: Endpoint) -> Callable[[int], Any]:
        """The leader answers once it has written the record: what commits it may be the vote of this node."""
        wire = add_raft_voter_request
        return lambda version: wire.AddRaftVoterRequest(
            self._identity.cluster_id,
            self._request_timeout_ms,
            *self._own,
            [wire.Listener(endpoint.name, endpoint.host, endpoint.port)],
            version == 0,
        )

    def _send(self, api_key: int, build: Callable[[int], Any], now: float) -> None:
        if self._request.send(api_key, build, self._on_response, self._on_failure):
            self._requested_ms = now

    def _on_response(self, response: Any) -> None:
        if response.error_code != ErrorCode.NONE:
            error = ErrorCode.describe(response.error_code)
            logger.info(
                "node %d has no vote yet and tries again: %s: %s", self._own.id, error, response.error_message
            )

    def _on_failure(self, failure: Failure) -> None:
        logger.debug("node %d has no vote yet and tries again: %s", self._own.id, failure.reason)
