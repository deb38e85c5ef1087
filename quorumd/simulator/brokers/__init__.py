"""Brokers under the simulated controller: nodes with the broker role (`nodes/`), and models of brokers, which can
also misbehave in ways that quorumd's brokers do not.

Models run the shipping replica, leader epoch cache and sender of AlterPartition (`quorumd.broker`) on logs in memory,
whose records have the format of the model, and over connections that faults can disturb. Registration, heartbeats and
the fetches of the metadata log are the models' own, in the same bytes as a real broker's. Leaders can also send old
versions of AlterPartition, and propose replicas that the metadata has as fenced.

    options            number and behaviour of brokers
    broker_disk        log directories, and which of them are cordoned
    data_log           the log of one replica
    fetch_codec        Fetch requests and responses between brokers
    fetch_server       Fetch on a leader, with delayed responses
    replica_fetcher    Fetch on a follower
    metadata           the metadata log, fetched as an observer
    lifecycle          registration, heartbeats, controlled shutdown
    isr_channel        AlterPartition requests of one version
    directories        AssignReplicasToDirs, after a broker got another disk or chose a directory
    request_channel    a connection for one purpose
    broker             one incarnation of a broker
    population         brokers, as models or as nodes, with their clients
    administrators     the administrator, the operators and the metadata reader
    operators/         operators that send valid and invalid requests about one subject
    nodes/             nodes with the broker role
    produced           records that producers send to nodes
    fleet              starts and stops all models, and loses their disks
    traffic            producers and consumers
    admin              administrators
    metadata_reader    a client that reads metadata
    partition_history  the outcomes of the records of one partition
    cluster_view       the state that checkers observe
    observation        updates the cluster view, and notifies the checkers
    checkers/          invariants of brokers and their records
"""
