"""The APIs that brokers serve to producers, consumers and other brokers.

    produce           Produce
    fetch             Fetch, of consumers and followers
    fetch_reader      one partition of a fetch
    fetch_sessions    incremental fetches (KIP-227)
    fetch_purgatory   fetches that wait for records
    list_offsets      ListOffsets, OffsetForLeaderEpoch
    delete_records    DeleteRecords
    log_dirs          DescribeLogDirs, AlterReplicaLogDirs
    producers         InitProducerId without a transactional id, DescribeProducers
    metadata          Metadata, with the creation of topics, and DescribeCluster

`families` builds them from one `BrokerApiContext` (`context`) per listener. Records pass through as bytes: they are
never decoded, except to look up a timestamp in one batch.
"""
