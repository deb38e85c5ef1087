"""Requests that a node sends to the leader on its own behalf, one at a time."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.node.basics import QuorumParts
from quorumd.node.peers.client import PeerClient
from quorumd.node.peers.connection import Call, Failure, Purpose
from quorumd.ports import Clock
from quorumd.protocol.wire import Message


class LeaderCaller:
    """Sends calls to the current leader."""

    def __init__(self, quorum: QuorumParts, peers: PeerClient) -> None:
        self._quorum = quorum
        self._peers = peers

    def call(self, call: Call) -> bool:
        """Send a call. Return False, with nothing sent, if no leader is known, or if it is this node."""
        leader_id = self._quorum.engine.leader_id
        if leader_id < 0 or leader_id == self._quorum.own.id:
            return False
        return self._peers.call_node(leader_id, call, Purpose.FORWARD)


class LeaderRequest:
    """Sends one request at a time.

    `call_leader(call) -> bool` sends to the leader; False if no leader is known, or if it is this node.
    """

    def __init__(self, clock: Clock, call_leader: Callable[[Call], bool], timeout_ms: float) -> None:
        self.is_pending = False
        self._clock = clock
        self._call_leader = call_leader
        self._timeout_ms = timeout_ms

    def send(
        self,
        api_key: int,
        build: Callable[[int], Message],
        on_response: Callable[[Message], None],
        on_failure: Callable[[Failure], None],
    ) -> bool:
        """Send the message of `build(api_version)` and return whether it was sent.

        If so, exactly one callback is called later, when `is_pending` is False again.
        """

        def handle_response(response: Message) -> None:
            self.is_pending = False
            on_response(response)

        def handle_failure(failure: Failure) -> None:
            self.is_pending = False
            on_failure(failure)

        deadline = self._clock.now_ms() + self._timeout_ms
        self.is_pending = self._call_leader(Call(api_key, build, handle_response, handle_failure, deadline))
        return self.is_pending
