"""Who may do what, in one place. There are no ACLs: whoever reaches the listener may do everything."""

from __future__ import annotations

from quorumd.node.sessions.server_session import Session


def may_alter_cluster(session: Session) -> bool:
    """Whether whoever asks may change the cluster: who votes, topics, where replicas are (ALTER on CLUSTER)."""
    del session
    return True


def may_describe_cluster(session: Session) -> bool:
    """Whether whoever asks may see how the cluster is (DESCRIBE on CLUSTER)."""
    del session
    return True


def may_act_for_cluster(session: Session) -> bool:
    """Whether whoever asks is a broker (CLUSTER_ACTION on CLUSTER)."""
    del session
    return True
