"""Whether the replicas of a log agree, each with itself and all with each other.

    audit(session, folders) -> AuditReport: findings (schemas.AUDIT_FINDINGS), what was read, whether it is clean
    digests     pure: a piece of a segment to rows of the level `audit` of the source
    compare     pure: seams between segments, buckets that differ, first divergent offset, provably committed or not
    quorum_states, snapshots      the files beside the log

Records are not decoded: batches are compared by their computed CRCs. A stored CRC that was not touched by the damage
would look the same on all replicas.
"""
