"""A broker: replicas of partitions, their leaders and followers, and the APIs of producers and consumers.

A broker is an observer of the metadata log. It acts on the image after each committed batch: replicas become leaders
or followers, and folders appear and go. Decisions are pure; files, clock and network are ports.

    log/           the log of one replica on disk, in Kafka's directory format
    metadata       the image of the committed metadata, and what each batch changed
    directories    the log directories; log_folders, log_manager: opening and deleting the logs in them
    replication/   one replica, pure: leader and follower, high watermark, ISR changes; fetchers; AlterPartition
    partitions     the replicas of this broker, as the metadata says; appends
    housekeeping   checkpoints, flushes, retention, compaction, shrinking ISRs
    coordinator/   consumer groups and transactions
    api/           Produce, Fetch, ListOffsets and the other APIs of brokers, with their purgatories
    lifecycle      registration, heartbeats, catching up, controlled shutdown
    broker         all of these, joined

`node` builds a broker into a process with that role; the simulator runs the same code.
"""
