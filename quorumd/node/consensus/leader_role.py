"""Whether this node handles the requests that only the leader may handle."""

from __future__ import annotations

from quorumd.raft.engine import RaftEngine


class LeaderRole:
    """The node's part of leadership; the engine alone knows whether it leads the epoch.

    `is_handing_over`: a graceful shutdown has begun. `is_image_complete`: the image holds all that the log held when
    this node became leader.
    """

    def __init__(self, engine: RaftEngine, node_id: int) -> None:
        self.is_handing_over = False
        self.is_image_complete = False
        self._engine = engine
        self._node_id = node_id

    @property
    def is_leader(self) -> bool:
        """Whether requests for the leader are handled here. Not while the node hands over leadership, nor when its
        removal from the voters is in the log and it leads only until that is committed."""
        engine = self._engine
        is_voter = engine.voters.current.by_id(self._node_id) is not None
        return engine.is_leader and is_voter and not self.is_handing_over

    @property
    def is_active_controller(self) -> bool:
        """Whether requests that need the image are handled here: until it is complete they wait, as for a leader."""
        return self.is_image_complete and self.is_leader
