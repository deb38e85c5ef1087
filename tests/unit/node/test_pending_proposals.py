"""Whether the image of a leader is ahead of its log."""

from __future__ import annotations

from quorumd.node.state.proposals import ignore_commit
from quorumd.protocol.messages.config_record import ConfigRecord
from tests.support.node.nodes import Cluster


def test_proposals_are_pending_until_they_are_in_the_log() -> None:
    cluster = Cluster(1).start()
    leader = cluster.leader()
    cluster.run(100)
    assert not leader.has_pending_proposals
    assert leader.controller.writer.write_batch([ConfigRecord(2, "topic", "key", "value")], ignore_commit)
    assert leader.has_pending_proposals
    cluster.run(100)
    assert not leader.has_pending_proposals
