"""Moves leadership back to preferred leaders periodically, in steps that each wait for the previous step's commit."""

from __future__ import annotations

import logging
from collections.abc import Callable

from quorumd.controller.controller import Controller
from quorumd.controller.leader_balance import balance_leaders, max_balance_records
from quorumd.node.state.metadata_writer import MetadataWriter
from quorumd.node.statistics import NodeStatistics
from quorumd.ports import Clock, Timer

logger = logging.getLogger("quorumd.controller")


class LeaderBalancer:
    """Runs a round per leader.imbalance.check.interval.seconds.

    `can_write()` returns whether records can be written now.
    """

    def __init__(
        self,
        controller: Controller,
        clock: Clock,
        writer: MetadataWriter,
        statistics: NodeStatistics,
        can_write: Callable[[], bool],
    ) -> None:
        self._controller = controller
        self._clock = clock
        self._writer = writer
        self._statistics = statistics
        self._can_write = can_write
        self._timer: Timer | None = None
        self._is_active = False
        self._elected = 0
        """Elections in this round."""

    def begin(self) -> None:
        """Schedule the first round after one interval, so that brokers have time to reconnect."""
        self._is_active = self._controller.settings.leader_imbalance_check_interval_ms > 0
        if self._is_active:
            self._end_round()

    def stop(self) -> None:
        """End the current round and schedule no further rounds."""
        self._is_active = False
        if self._timer is not None:
            self._timer.cancel()

    def _step(self) -> None:
        records = balance_leaders(self._controller) if self._can_write() else []
        if not records:
            self._end_round()
            return
        count = len(records)

        def on_commit(committed: bool) -> None:
            self._on_commit(count, committed)

        self._writer.write_batches(records, on_commit)

    def _on_commit(self, count: int, committed: bool) -> None:
        if not self._is_active:
            return
        if committed:
            self._elected += count
            self._statistics.preferred_leader_elections += count
        if committed and count == max_balance_records(self._controller):
            self._timer = self._clock.call_at(self._clock.now_ms(), self._step)
        else:
            self._end_round()

    def _end_round(self) -> None:
        if self._elected:
            logger.info("%d partitions are led by their preferred leaders again", self._elected)
            self._elected = 0
        due = self._clock.now_ms() + self._controller.settings.leader_imbalance_check_interval_ms
        self._timer = self._clock.call_at(due, self._step)
