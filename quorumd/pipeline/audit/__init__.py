"""Checks each replica of a log, and compares all replicas.

    audit            the audit: `audit` reads the logs with Spark, `audit_here` without; both return an AuditReport
    copies           a node's copy of the log, from rows of the level `audit`, with the place of each batch
    matching         where two copies differ, first by the digests of buckets, then by batches
    rereading        reads buckets and batches from the files again
    commitment       what is provably committed, and in which copy
    continuity       faults within one copy
    compare          differences between copies
    sidecar_files    meta.properties, quorum-state and the high-watermark checkpoint of a node
    control_batches  leaders and voters in the log
    quorum_states    whether votes and leaders are consistent
    derived_files    leader-epoch-checkpoint, partition.metadata and indexes, checked against the log
    torn_tails       the end of a log after a crash, distinguished from damage
    undecodable      records that cannot be decoded although their CRC matches
    snapshots        whether snapshots are valid and equal
    snapshot_fold    whether snapshots match the log
    findings         the codes of findings and their severity
    textfile         the result as metrics for Prometheus

Records are not decoded, except to compare snapshots with the log: batches are compared by their computed CRCs. A
stored CRC may be the same on all replicas although the data of one is damaged.

Spark reads everything once and returns a few rows per 65,536 offsets. All decisions are made from these rows, and
from the few batches they point at, in the calling process.
"""
