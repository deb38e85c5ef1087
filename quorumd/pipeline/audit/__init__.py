"""Whether the replicas of a log agree, each with itself and all with each other.

    audit(session, folders) -> AuditReport      Spark reads the logs (.audit); audit_here does it without Spark
    digests          a piece of a segment to rows of the level `audit` of the source
    copies           these rows put together: a node's copy of the log, and where what lies
    matching         where two copies differ: buckets by their digests, then the batches of those that do
    rereading        buckets and batches read again from the files
    commitment       what is provably committed, and in whose version
    seams            what is wrong within one copy
    compare          what copies say about each other
    beside           the small files of a node; control_batches: leaders and voters in the log
    quorum_states    whether votes and leaders fit together
    snapshots        whether they are sound and equal; snapshot_fold: and what the log adds up to
    findings         what can be found, and how bad it is

Records are not decoded, except to compare snapshots with the log: batches are compared by their computed CRCs. A
stored CRC that was not touched by the damage would look the same on all replicas.

Spark reads all there is, once, and hands over a few rows for 65,536 offsets. Everything else is decided from these
rows, and from the few batches that they point at, in the process that asks.
"""
