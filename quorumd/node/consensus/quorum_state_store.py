"""Writes quorum-state: the engine's state with the committed voters and cluster id."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.log.quorum_state_file import QuorumStateFile
from quorumd.node.basics import QuorumParts
from quorumd.node.identity.founding import Founding
from quorumd.node.identity.identity_files import to_saved_state
from quorumd.node.state.state_machine import StateMachine
from quorumd.raft.quorum_state import QuorumState


class QuorumStateStore:
    """Builds the disk operations that make the engine's state durable."""

    def __init__(
        self,
        file: QuorumStateFile,
        quorum: QuorumParts,
        founding: Founding,
        state_machine: StateMachine,
    ) -> None:
        self._file = file
        self._own = quorum.own
        self._engine = quorum.engine
        self._identity = quorum.identity
        self._founding = founding
        self._state_machine = state_machine

    def save(self, state: QuorumState) -> Callable[[], None]:
        """Return the operation that saves epoch, leader and vote with the voters and cluster id committed now (hole
        22)."""
        offset = self._state_machine.committed_offset
        saved = to_saved_state(
            state,
            self._identity.cluster_id,
            self._own.id,
            offset,
            self._engine.voters_before(offset),
            self._founding.founders_to_save,
        )
        return lambda: self._file.save(saved)
