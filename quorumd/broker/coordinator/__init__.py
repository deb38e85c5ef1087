"""Coordinators of groups and transactions: state machines of the partitions of __consumer_offsets and
__transaction_state that this broker leads.

    effects        writes, times and deadlines: the effects of a state machine
    records        records of coordinators in batches, in Kafka's formats
    shards         the partitions of one internal topic: loading, appending, completion of writes, unloading
    internal_topics  creation of the internal topics, and the partition of a key
    classic_*      groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
    consumer_*, assignors  groups of the consumer protocol (KIP-848)
    offset_*       committed offsets of all groups
    groups         the state machine of one partition of __consumer_offsets

A state machine is pure: (state, request, times) -> writes, responses and deadlines. The records of a write enter the
log before the state changes, so a failed append needs no rollback; a response is sent once what it depends on is
committed. A broker that resigns drops the state of the partition; the next leader loads it from the log.
"""
