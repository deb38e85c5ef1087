"""Logs refused requests of candidates and leaders."""

from __future__ import annotations

import logging
from typing import Final

from quorumd.log_limit import LogLimit
from quorumd.ports import Clock
from quorumd.raft.effects import RequestRefused
from quorumd.raft.engine import RaftEngine

logger = logging.getLogger("quorumd.node")

MAX_LOGGED_REFUSALS: Final = 100
"""Different refusals logged per interval; an unknown client can invent any number of node ids."""


class RefusalLog:
    """Logs a refusal as a warning once per interval, else at debug level."""

    def __init__(self, clock: Clock, engine: RaftEngine) -> None:
        self._engine = engine
        # One slot is left for kinds beyond the limit.
        self._warnings = LogLimit(clock.now_ms, MAX_LOGGED_REFUSALS - 1)

    def refused(self, refused: RequestRefused) -> None:
        """Log a refused request."""
        is_first = self._warnings.admit((refused.kind, refused.sender, refused.reason)) is not None
        logger.log(
            logging.WARNING if is_first else logging.DEBUG,
            "refused the %s of node %d at %s in epoch %d, own epoch %d: %s",
            refused.kind,
            refused.sender,
            refused.peer,
            refused.epoch,
            self._engine.epoch,
            refused.reason,
        )
