"""Appends metadata records to the log of the leader."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.state.state_machine import StateMachine
from quorumd.node.statistics import NodeStatistics
from quorumd.ports import Clock
from quorumd.protocol.record_batch import encode_batch
from quorumd.raft.engine import RaftEngine


class LogAppender:
    """`propose(batch, end_offset)` makes the engine append a batch and returns whether it was appended."""

    def __init__(
        self,
        engine: RaftEngine,
        log: SegmentedLog,
        clock: Clock,
        state_machine: StateMachine,
        statistics: NodeStatistics,
        propose: Callable[[bytes, int], bool],
    ) -> None:
        self._engine = engine
        self._log = log
        self._clock = clock
        self._state_machine = state_machine
        self._statistics = statistics
        self._propose = propose

    def append(self, values: Sequence[bytes]) -> int | None:
        """Append one batch of record values. Return its end offset; None if this node does not lead or its disk is
        full."""
        if not self._engine.is_leader:
            return None
        base_offset = self._log.end_offset
        end_offset = base_offset + len(values)
        batch = encode_batch(base_offset, self._engine.epoch, self._clock.wall_ms(), values)
        if not self._propose(batch, end_offset):
            return None
        self._state_machine.appended(end_offset)
        self._statistics.appended_records += len(values)
        return end_offset
