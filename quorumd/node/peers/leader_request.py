"""What a node requests of its leader by itself, one request at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quorumd.node.peers.connection import Call, Failure
from quorumd.ports import Clock


class LeaderRequest:
    """`call_leader(call) -> bool` sends to the leader; False when none is known, or it is this node."""

    def __init__(self, clock: Clock, call_leader: Callable[[Call], bool], timeout_ms: float) -> None:
        self.is_pending = False
        self._clock = clock
        self._call_leader = call_leader
        self._timeout_ms = timeout_ms

    def send(
        self,
        api_key: int,
        build: Callable[[int], Any],
        on_response: Callable[[Any], None],
        on_failure: Callable[[Failure], None],
    ) -> bool:
        """Send what `build(api_version)` returns; returns whether it was sent. One of the callbacks is called later,
        when this is no longer pending."""

        def handle_response(response: Any) -> None:
            self.is_pending = False
            on_response(response)

        def handle_failure(failure: Failure) -> None:
            self.is_pending = False
            on_failure(failure)

        deadline = self._clock.now_ms() + self._timeout_ms
        self.is_pending = self._call_leader(Call(api_key, build, handle_response, handle_failure, deadline))
        return self.is_pending
