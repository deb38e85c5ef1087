"""Checks each replica of a log, and compares all replicas.

    audit(session, folders) -> AuditReport      Spark reads the logs (.audit); audit_here does it without Spark
    copies           a node's copy of the log, from rows of the level `audit`, with the place of each batch
    matching         where two copies differ: first buckets, by their digests, then batches
    rereading        reads buckets and batches from the files again
    commitment       what is provably committed, and in which copy
    continuity       faults within one copy
    compare          differences between copies
    sidecar_files    the small files of a node
    control_batches  leaders and voters in the log
    quorum_states    whether votes and leaders are consistent
    snapshots        whether snapshots are valid and equal
    snapshot_fold    whether snapshots match the log
    findings         the codes of findings and their severity
    textfile         the result as metrics for Prometheus

Records are not decoded, except to compare snapshots with the log: batches are compared by their computed CRCs. A
stored CRC may be the same on all replicas although the data of one is damaged.

Spark reads everything once and returns a few rows per 65,536 offsets. All decisions are made from these rows, and
from the few batches they point at, in the calling process.
"""
