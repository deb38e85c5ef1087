"""Whether this node handles requests that only the leader may handle."""

from __future__ import annotations

from quorumd.raft.engine import RaftEngine


class LeaderRole:
    """Combines the engine's leadership of the epoch with the state of the node."""

    def __init__(self, engine: RaftEngine, node_id: int) -> None:
        self.is_handing_over = False
        """Whether a graceful shutdown has begun to hand over leadership."""
        self.is_image_complete = False
        """Whether the image contains all records that the log had when this node became leader."""
        self._engine = engine
        self._node_id = node_id

    @property
    def is_leader(self) -> bool:
        """Whether this node handles requests for the leader.

        False while it hands over leadership, and while it leads only until its own removal from the voters is
        committed.
        """
        engine = self._engine
        is_voter = engine.voters.current.by_id(self._node_id) is not None
        return engine.is_leader and is_voter and not self.is_handing_over

    @property
    def is_active_controller(self) -> bool:
        """Whether this node handles requests that need the image; they wait until the image is complete."""
        return self.is_image_complete and self.is_leader
