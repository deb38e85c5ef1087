"""What a node requests of its leader by itself, one request at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quorumd.node.peers import Call, Failure
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
        answered: Callable[[Any], None],
        failed: Callable[[Failure], None],
    ) -> bool:
        """Send what `build(api_version)` returns; returns whether it was sent. One of the callbacks is called later,
        when this is no longer pending."""

        def on_answered(answer: Any) -> None:
            self.is_pending = False
            answered(answer)

        def on_failed(failure: Failure) -> None:
            self.is_pending = False
            failed(failure)

        deadline = self._clock.now_ms() + self._timeout_ms
        self.is_pending = self._call_leader(Call(api_key, build, on_answered, on_failed, deadline))
        return self.is_pending
