"""The requests of a broker to the active controller.

lifecycle          registration, heartbeats and controlled shutdown
repeated_request   one request at a time, repeated until it succeeds
alter_partition    AlterPartition: ISR changes that leaders propose
directory_reports  AssignReplicasToDirs: the log directory of each replica
producer_ids       AllocateProducerIds: blocks of producer ids
topic_creation     CreateTopics on behalf of clients and coordinators
"""
