"""Telling the leader where this voter is reached now (KIP-853, UpdateRaftVoter).

Between quorumd nodes gossip does that, at once. A stock leader hears of no gossip: its voters tell it, as those of
stock Kafka do, while its voter record says something else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from quorumd.errors import ErrorCode
from quorumd.ids import Endpoint, ReplicaKey
from quorumd.node.identity.cluster_identity import ClusterIdentity
from quorumd.node.peers.connection import Call, Failure
from quorumd.node.peers.leader_request import LeaderRequest
from quorumd.ports import Clock
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages import update_raft_voter_request as wire
from quorumd.raft.engine import RaftEngine

logger = logging.getLogger("quorumd.node")

LOWEST_KRAFT_VERSION, HIGHEST_KRAFT_VERSION = 0, 1


class VoterEndpointUpdate:
    """`own`: this replica. `call_leader(call) -> bool` sends to the leader; False when none is known, or it is this
    node. `look(endpoint)` is called now and then, with where this node is reached."""

    def __init__(
        self,
        engine: RaftEngine,
        clock: Clock,
        identity: ClusterIdentity,
        own: ReplicaKey,
        call_leader: Callable[[Call], bool],
        request_timeout_ms: float,
    ) -> None:
        self._engine = engine
        self._identity = identity
        self._own = own
        self._request = LeaderRequest(clock, call_leader, request_timeout_ms)

    def update(self, endpoint: Endpoint) -> None:
        """Tell the leader, if the newest voter record has another address of this listener."""
        recorded = self._engine.voters.current.by_id(self._own.id)
        if self._request.is_pending or recorded is None or recorded.key != self._own:
            return
        endpoints = tuple(endpoint if e.name == endpoint.name else e for e in recorded.endpoints)
        if endpoints == recorded.endpoints:
            return
        request = wire.UpdateRaftVoterRequest(
            self._identity.cluster_id,
            self._engine.epoch,
            *self._own,
            [wire.Listener(*each) for each in endpoints],
            wire.KRaftVersionFeature(LOWEST_KRAFT_VERSION, HIGHEST_KRAFT_VERSION),
        )
        self._request.send(
            ApiKey.UPDATE_RAFT_VOTER, lambda version: request, self._on_response, self._on_failure
        )

    def _on_response(self, response: Any) -> None:
        if response.error_code != ErrorCode.NONE:
            error = ErrorCode.describe(response.error_code)
            logger.warning(
                "the leader does not record where this voter is reached now: %s; it is asked again", error
            )

    def _on_failure(self, failure: Failure) -> None:
        logger.debug("the leader was not told where this voter is: %s", failure.reason)
