"""Updates the voter record of a voter whose endpoints have changed (KIP-853, UpdateRaftVoter).

A leader appends the new record itself, other voters send UpdateRaftVoter to it: brokers find the controllers by these
endpoints.

Among quorumd nodes gossip spreads a new address at once. A stock leader takes no part in gossip and relies on
UpdateRaftVoter, as with stock voters.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from quorumd.errors import ErrorCode
from quorumd.ids import Endpoint
from quorumd.node.basics import NodeBasics, QuorumParts
from quorumd.node.peers.connection import Call, Failure
from quorumd.node.peers.leader_request import LeaderRequest
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages import update_raft_voter_request as wire
from quorumd.protocol.messages.update_raft_voter_response import UpdateRaftVoterResponse
from quorumd.protocol.wire import Message
from quorumd.raft.effects import VoterChangeResult
from quorumd.raft.events import UpdateVoter, VoterChangeRequested
from quorumd.raft.voters import Voter

logger = logging.getLogger("quorumd.node")

LOWEST_KRAFT_VERSION, HIGHEST_KRAFT_VERSION = 0, 1


class VoterEndpointUpdate:
    """Updates the endpoints of this node's replica.

    `call_leader(call) -> bool` sends to the leader; False if no leader is known, or if it is this node.
    """

    def __init__(
        self,
        node: NodeBasics,
        quorum: QuorumParts,
        call_leader: Callable[[Call], bool],
    ) -> None:
        self._engine = quorum.engine
        self._identity = quorum.identity
        self._own = quorum.own
        self._request = LeaderRequest(node.clock, call_leader, node.settings.request_timeout_ms)
        self._step = quorum.step
        self._is_appending = False

    def update(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Update the newest voter record if it has other listeners, or other addresses, than this node.

        A record with none of this node's listener names is kept: its voters connect on other listeners.
        """
        recorded = self._engine.voters.current.by_id(self._own.id)
        if self._request.is_pending or recorded is None or recorded.key != self._own:
            return
        names = {each.name for each in recorded.endpoints}
        is_known = any(each.name in names for each in endpoints)
        if not is_known or set(endpoints) == set(recorded.endpoints):
            return
        if self._engine.is_leader:
            self._append(endpoints)
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

    def _append(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Append the new record as leader; a refused change is retried."""
        if not self._is_appending:
            self._is_appending = True
            change = UpdateVoter(Voter(self._own, endpoints), self._engine.epoch)
            self._step(VoterChangeRequested(self._on_result, change))

    def _on_result(self, result: VoterChangeResult) -> None:
        del result
        self._is_appending = False

    def _on_response(self, response: Message) -> None:
        assert isinstance(response, UpdateRaftVoterResponse)
        if response.error_code != ErrorCode.NONE:
            error = ErrorCode.describe(response.error_code)
            logger.warning(
                "the leader rejected the new endpoint of this voter: %s; the update will be retried", error
            )

    def _on_failure(self, failure: Failure) -> None:
        logger.debug("the endpoint of this voter was not sent to the leader: %s", failure.reason)
