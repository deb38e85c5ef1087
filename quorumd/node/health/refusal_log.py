"""Logs refused requests of candidates and leaders."""

from __future__ import annotations

import logging
from math import inf

from quorumd.ports import Clock
from quorumd.raft.effects import RequestRefused
from quorumd.raft.engine import RaftEngine

logger = logging.getLogger("quorumd.node")

REFUSAL_LOG_INTERVAL_MS = 10_000.0
"""Minimum time between two warnings about the same refusal of a vote."""
MAX_LOGGED_REFUSALS = 100
"""Different refusals logged per interval; an unknown client can invent any number of node ids."""


class RefusalLog:
    """Logs a refusal as a warning once per interval, else at debug level."""

    def __init__(self, clock: Clock, engine: RaftEngine) -> None:
        self._clock = clock
        self._engine = engine
        self._logged: dict[tuple[str, int, str], float] = {}
        """By kind, sender and reason: the time of the last warning."""

    def refused(self, refused: RequestRefused) -> None:
        """Log a refused request."""
        logger.log(
            logging.WARNING if self._is_first(refused) else logging.DEBUG,
            "refused the %s of node %d at %s in epoch %d, own epoch %d: %s",
            refused.kind,
            refused.sender,
            refused.peer,
            refused.epoch,
            self._engine.epoch,
            refused.reason,
        )

    def _is_first(self, refused: RequestRefused) -> bool:
        """Whether no such refusal was logged as a warning within the interval."""
        now, key = self._clock.now_ms(), (refused.kind, refused.sender, refused.reason)
        if now - self._logged.get(key, -inf) < REFUSAL_LOG_INTERVAL_MS:
            return False
        if len(self._logged) >= MAX_LOGGED_REFUSALS:
            self._logged = {k: at for k, at in self._logged.items() if now - at < REFUSAL_LOG_INTERVAL_MS}
            if len(self._logged) >= MAX_LOGGED_REFUSALS:
                return False
        self._logged[key] = now
        return True
