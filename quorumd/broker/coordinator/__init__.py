"""Group and transaction coordinators: one state machine for each partition of __consumer_offsets and
__transaction_state that this broker leads.

    effects              the effects of a state machine: writes and deadlines
    records              coordinator records in record batches, in Kafka's formats
    shards               the partitions of one internal topic: loads and unloads them, appends and completes writes
    hosted_log           the logs of the shards, loaded and unloaded as the leadership of this broker changes
    internal_topics      creates the internal topics; the partition of a group id or transactional id
    large_members        bounds of the memory of members
    classic_*            groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
    consumer_*           groups of the consumer protocol: ConsumerGroupHeartbeat (KIP-848)
    mixed_membership     the requests of members of consumer groups that use the classic protocol
    migration            from classic groups to consumer groups and back, while they have members
    embedded_protocol    the subscriptions and assignments of consumers in JoinGroup and SyncGroup
    topics               the topics of the metadata, as the coordinators see them
    metadata_topics      these topics in the image of the broker
    metadata_hash        the hash of the topics of a group, as Kafka computes it
    topic_regexes        the regular expressions of consumer groups, and when they are evaluated
    regex_evaluator      matches the regular expressions against the names of all topics, in slices
    assignors            the server-side assignors of consumer groups
    offset_*             committed offsets of all groups
    groups               the group coordinator: the state machine of a partition of __consumer_offsets
    transactions         the transaction coordinator: the state machine of a partition of __transaction_state
    transaction          the state of one transactional id
    transaction_markers  sends the markers of an ending transaction to the leaders of its partitions

A state machine is pure: (state, request, time) -> writes, responses and deadlines. The records of a write are
appended before the state changes, so a failed append needs no rollback; a response is sent once the records that it
depends on are committed. A broker that loses the leadership of a partition drops its state; the new leader loads it
from the log.
"""
