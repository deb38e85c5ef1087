"""Brokers for the partition controller: processes of the simulation that replicate data, pure models.

What they say to the quorum is what brokers say, in its bytes: registration, heartbeats, AlterPartition, fetches of
the metadata log. What they say to each other is Fetch; the records in it are the model's.

    options       how many, and how they behave
    broker_disk   its log directories, and which of them are cordoned
    data_log      the log of one replica, and how two logs differ
    replica       one replica, pure: leader and follower
    data_wire     Fetch between brokers; data_server, data_fetcher: its two ends
    metadata      the metadata log as an observer sees it
    lifecycle     registration, heartbeats, controlled shutdown
    isr_changes   AlterPartition, again and again until it is answered
    directories   AssignReplicasToDirs, after a broker got another disk or chose a directory
    channel       a connection for one purpose
    broker        one life of a broker
    population    all of them: starts, ends, what a disk loses
    traffic       producers and consumers; admin: administrators
    ledger        what became of the records of one partition
    scene         what checkers look at; observation: keeps it up to date
    checkers      promises about brokers and their records
"""
