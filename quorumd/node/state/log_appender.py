"""Appends metadata records to the log of the leader."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quorumd.node.basics import NodeBasics, QuorumParts
from quorumd.node.state.state_machine import StateMachine
from quorumd.protocol.record_batch import encode_batch


class LogAppender:
    """Appends batches as leader.

    `propose(batch, end_offset)` makes the engine append a batch and returns whether it was appended.
    """

    def __init__(
        self,
        node: NodeBasics,
        quorum: QuorumParts,
        state_machine: StateMachine,
        propose: Callable[[bytes, int], bool],
    ) -> None:
        self._engine = quorum.engine
        self._log = quorum.log
        self._clock = node.clock
        self._state_machine = state_machine
        self._statistics = node.statistics
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
