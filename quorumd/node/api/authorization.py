"""Authorization, in one place. There are no ACLs: every client of the listener may do everything."""

from __future__ import annotations

from quorumd.protocol.routes import Session


def may_alter_cluster(session: Session) -> bool:
    """Whether the client may change voters, topics, replica assignments and features (ALTER on CLUSTER)."""
    del session
    return True


def may_describe_cluster(session: Session) -> bool:
    """Whether the client may see the state of the cluster (DESCRIBE on CLUSTER)."""
    del session
    return True


def may_act_for_cluster(session: Session) -> bool:
    """Whether the client is a broker or controller of the cluster (CLUSTER_ACTION on CLUSTER)."""
    del session
    return True


def may_alter_configs(session: Session) -> bool:
    """Whether the client may change the configs of every resource (ALTER_CONFIGS)."""
    del session
    return True


def may_describe_configs(session: Session) -> bool:
    """Whether the client may read the configs of every resource (DESCRIBE_CONFIGS)."""
    del session
    return True
