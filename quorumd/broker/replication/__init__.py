"""One replica of a partition, without I/O: time is an argument, effects are calls of two small protocols.

    replica         leader and follower: metadata, fetches, appends, the high watermark
    leadership      the state of a leader: followers, the pending proposal, pending writes
    isr_proposal    an ISR proposed to the controller, and the meaning of the response
    follower_state  the state that a leader keeps of a follower
    replica_fetch   one partition of a Fetch between replicas, and of its response
    repeated_fetch  the fast path for the repeated fetches of an idle partition
    replica_log     the operations of a log that a replica uses; where two logs diverge
    future_replica  the copy of a log in the directory to which a replica moves (KIP-113)

The rules are the same as in Kafka's data replication with KIP-101, KIP-595 (truncation by epochs in Fetch), KIP-903
(broker epochs) and KIP-966 (the high watermark waits for min.insync.replicas).
"""
