"""Nodes with the broker role in the simulator, running the code that ships: settings, observation, clients,
histories.

roles                   the settings of the role
observed                the replicas of a running broker, as checkers read them
probe                   observes a broker after each event of its node
fleet                   all broker nodes, with their clients and administrators
clients                 connections of producers and consumers
replica_moves           moves between log directories
producers               plain and idempotent producers
transactional_producer  producers with transactions
consumers               consumers of partitions, without a group
groups                  members of consumer groups, of both protocols
migrating_member        members that leave and return with either protocol
curious_client          requests about the quorum, and changes of configs that brokers validate
hanging_transactions    an operator that ends transactions which their coordinator has lost (KIP-664)
record                  records the actions of producers and consumers for the checkers
producer_model          the producers of a log, derived from its batches alone
logs_on_disk            the logs of partitions, read from the files of a machine
"""
