"""quorum-state holds committed voters only."""

from __future__ import annotations

from quorumd.log.meta_properties import partition_directory
from quorumd.log.quorum_state_file import QuorumStateFile, SavedState
from tests.support.node.nodes import DATA_DIRECTORY, Cluster


def saved(cluster: Cluster, node_id: int) -> SavedState:
    state = QuorumStateFile(cluster.disks[node_id], partition_directory(DATA_DIRECTORY)).load()
    assert state is not None
    return state


def test_hole_22_quorum_state_has_committed_voters_only() -> None:
    """The first leader saves its leadership before the voter record in its log is committed; in the next epoch the
    record is committed."""
    cluster = Cluster(voters=3).start()
    leader = cluster.leader().settings.node_id
    state = saved(cluster, leader)
    assert (state.leader_id, state.applied_offset, state.current_voters) == (leader, 0, ())
    others = [node_id for node_id in cluster.voters if node_id != leader]
    cluster.run(1000)
    cluster.kill(leader)
    new = cluster.leader().settings.node_id
    for node_id in others:
        state = saved(cluster, node_id)
        assert (state.leader_id, state.current_voters) == (new, (1, 2, 3))
        assert state.applied_offset > 2


def test_hole_22_engine_has_the_voters_of_the_whole_log_after_a_restart() -> None:
    cluster = Cluster(voters=1).start()
    cluster.leader()
    assert saved(cluster, 1).current_voters == ()
    cluster.kill(1)
    cluster.start(1)
    assert cluster.nodes[1].engine.voters.current.ids == (1,)
