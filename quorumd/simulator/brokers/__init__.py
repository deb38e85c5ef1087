"""Brokers under the simulated controller: nodes with the broker role (`nodes/`), and models of brokers, which also do
what a broker of quorumd does not.

The requests of models to the quorum are those of real brokers, byte for byte: registration, heartbeats,
AlterPartition, fetches of the metadata log. Between each other they use Fetch, with records of the model.

    options            number and behaviour of brokers
    broker_disk        log directories, and which of them are cordoned
    data_log           the log of one replica, and differences between two logs
    replica            one replica, pure: leader and follower
    fetch_codec        Fetch between brokers
    fetch_server       the leader's end of it
    replica_fetcher    the follower's end of it
    metadata           the metadata log, fetched as an observer
    lifecycle          registration, heartbeats, controlled shutdown
    isr_changes        AlterPartition, with retries
    directories        AssignReplicasToDirs, after a broker got another disk or chose a directory
    request_channel    a connection for one purpose
    broker             one incarnation of a broker
    population         brokers with their clients, whether models or nodes
    administrators     the clients that administer both
    operators/         operators with requests of one subject each, invalid ones too
    nodes/             nodes with the broker role
    produced           the records of producers of nodes
    fleet              all models: starts, ends, losses of disks
    traffic            producers and consumers
    admin              administrators
    metadata_reader    a client that reads metadata
    partition_history  the outcomes of the records of one partition
    cluster_view       the state that checkers observe
    observation        updates it
    checkers/          invariants of brokers and their records
"""
