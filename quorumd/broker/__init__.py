"""A broker: replicas of partitions, their leaders and followers, and the APIs of producers and consumers.

A broker is an observer of the metadata log. It acts on the image after each committed batch: replicas become
leaders or followers, and partition directories are created and deleted. Decisions are pure; files, clock and network
are ports.

    log/                  the log of one replica on disk, in Kafka's directory format
    log_management/       the log directories; opens and deletes the logs in them
    metadata/             the image of the committed metadata, and what each batch changed
    replication/          one replica, pure: leader and follower, high watermark, ISR changes
    partitions/           the replicas of this broker, as the metadata has them; appends; moves between directories
    channels/             connections to the active controller and to other brokers, as protocols
    controller_requests/  registration and heartbeats, AlterPartition, directories, producer ids, topics
    fetching/             followers fetch from leaders on other brokers
    housekeeping/         checkpoints, flushes, retention, compaction; closing the logs
    coordinator/          groups and transactions
    api/                  Produce, Fetch, ListOffsets and the other APIs of brokers, with their purgatories
    settings/             the settings of the packages above
    coordinators          the coordinators of this broker and their APIs
    broker                the broker, built from these

A package imports only packages above it, or `settings`; pyproject.toml has the contract.
`node` builds a broker into a process with that role; the simulator runs the same code.
"""
