"""Who may do what, in one place. There are no ACLs: whoever reaches the listener may do everything."""

from __future__ import annotations

from quorumd.node.server_session import Session


def may_alter_cluster(session: Session) -> bool:
    """Whether whoever asks may change who votes: ALTER on CLUSTER (KIP-595 draft; KIP-853)."""
    del session
    return True
