"""Controlled shutdown of the broker in this process, within a time limit."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from quorumd.broker.broker import Broker
from quorumd.broker.controller_requests.lifecycle import BrokerState
from quorumd.ids import NO_NODE
from quorumd.node.lifecycle import Lifecycle
from quorumd.ports import Clock
from quorumd.raft.engine import RaftEngine

logger = logging.getLogger("quorumd.broker")

SHUTDOWN_TIMEOUT_MS: Final = 30_000.0
"""Timeout of the controlled shutdown, after which the logs are closed anyway."""
LEADERLESS_SHUTDOWN_MS: Final = 2_000.0
"""The timeout while no controller is known: the nodes of a cluster are often stopped together."""
POLL_MS: Final = 50.0


class ControlledShutdown:
    """Waits until a controller grants the shutdown of a broker, but no longer than the timeouts."""

    def __init__(self, broker: Broker, clock: Clock, engine: RaftEngine, lifecycle: Lifecycle) -> None:
        self._broker = broker
        self._clock = clock
        self._engine = engine
        self._lifecycle = lifecycle
        self._is_complete = False

    def begin(self, on_done: Callable[[], None]) -> None:
        """Hand over leadership of all partitions, close the logs, then call `on_done`."""

        def complete() -> None:
            self._is_complete = True
            on_done()

        self._broker.shut_down(complete)
        now_ms = self._clock.now_ms()
        self._watch(now_ms + SHUTDOWN_TIMEOUT_MS, now_ms)

    def _watch(self, deadline_ms: float, leader_seen_ms: float) -> None:
        """Complete the shutdown if no controller grants it in time."""
        if self._is_complete or self._lifecycle.is_stopped:
            return
        now_ms = self._clock.now_ms()
        if self._engine.leader_id != NO_NODE:
            leader_seen_ms = now_ms
        is_waiting = self._broker.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        if is_waiting and (now_ms >= deadline_ms or now_ms - leader_seen_ms >= LEADERLESS_SHUTDOWN_MS):
            logger.warning(
                "no controller has granted the controlled shutdown of this broker; it stops without it"
            )
            self._broker.on_shutdown_granted()
            return
        self._clock.call_at(now_ms + POLL_MS, partial(self._watch, deadline_ms, leader_seen_ms))
