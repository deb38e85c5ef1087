"""The APIs that brokers serve to producers, consumers and other brokers.

    produce                   Produce
    transaction_verification  whether a partition is part of the open transaction of a producer (KIP-890)
    fetch                     Fetch, of consumers and followers
    fetch_reader              one partition of a fetch
    fetch_sessions            incremental fetches (KIP-227)
    fetch_purgatory           fetches that wait for records
    list_offsets              ListOffsets, OffsetForLeaderEpoch
    delete_records            DeleteRecords
    log_dirs                  DescribeLogDirs, AlterReplicaLogDirs
    producers                 InitProducerId without a transactional id, DescribeProducers
    metadata                  Metadata, with the creation of topics, and DescribeCluster
    topic_listing             describes the topics of Metadata, in slices
    encoded_topics            encodes the topics of Metadata, in slices
    topic_messages            topics in responses
    broker_messages           brokers in responses
    topic_names               looks up topics that requests identify by name or by id
    new_topics                delays responses until the topics that their requests create are served
    find_coordinator          FindCoordinator
    coordinator_lookup        the shard that coordinates a group or a transactional id
    classic_groups            JoinGroup, SyncGroup, Heartbeat, LeaveGroup
    consumer_groups           ConsumerGroupHeartbeat, ConsumerGroupDescribe
    group_admin               ListGroups, DescribeGroups, DeleteGroups
    offsets                   OffsetCommit, OffsetFetch, OffsetDelete
    transactions              InitProducerId with a transactional id, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn
    transaction_admin         ListTransactions, DescribeTransactions
    transactional_offsets     TxnOffsetCommit
    transaction_markers       WriteTxnMarkers
    rights                    the ACL operations that requests about topics require
    group_rights              the ACL operations that requests about groups and transactions require
    context                   the parts of a broker that its APIs share
    families                  the APIs that need no coordinator

`families` builds the handlers from a `BrokerApiContext`. Records pass through as bytes; they are decoded only to look
up timestamps, and to check the keys of compacted topics.
"""
