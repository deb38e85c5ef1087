"""The controller's decisions, without I/O: the image of the cluster, and the records that a request adds to the log.

The image is a function of the log:

cluster_image           the state of the cluster at one offset; every change can be undone
undo_log                changes of dictionaries that can be undone
broker                  one registered broker, immutable
partition               one partition, immutable; change records applied to it
intern_pool             one object per distinct replica set and directory list, shared by a million partitions
partition_index         partitions by broker; those without a leader, with an ELR, or under reassignment
opaque_records          records stored as written: ACLs, credentials, quotas, tokens, controllers
registered_controllers  the registered controllers, parsed from their records
image_hash              a hash of the whole image, updated with every change; nodes compare theirs
image_records           the image as records: the content of a snapshot
record_versions         the version of a record at a metadata version, and the fields that it cannot carry

The image and its snapshots store every record type of Kafka. A record of an unknown type or version is an error that
names its offset; none is skipped.

Decisions: a `plan_*` function reads the `Controller` and a request and returns a `ControllerResult`: the records to
append, all or none, and the response once they are committed. Planning changes nothing.

controller               the inputs of decisions: image, broker sessions, settings, time, offsets
controller_result        records and response
broker_sessions          liveness of brokers: state of the leader that is not in the log
broker_registration      BrokerRegistration and UnregisterBroker
controller_registration  ControllerRegistration and UnregisterController
broker_heartbeat         BrokerHeartbeat: state changes of brokers
broker_lifecycle         records that fence, unfence, drain or unregister a broker, and their partition changes
partition_change         builds every change of a partition (ISR, ELR, leader, epochs)
partition_frames         applies partitions and their changes as they are in the log and in snapshots
partition_rules          the rules for changes of a topic's partitions, from the image
reassignment             start, replacement, cancellation and completion of a reassignment
alter_partition          AlterPartition: its checks, in order
reassignments            AlterPartitionReassignments and ListPartitionReassignments
elections                ElectLeaders, and periodic unclean elections
leader_balance           election of preferred leaders
topic_creation           CreateTopics
topic_deletion           DeleteTopics
partition_creation       CreatePartitions
new_partitions           what the creation of topics and of partitions has in common
preparation              preparation of many new partitions in slices
prepared_partitions      partitions that have been prepared
partitions_by_topic      partitions by topic name, as requests name them
placement                rack-aware placement of new partitions on brokers
topic_ids                ids by topic name, in the order of the names
topic_names              validation of topic names
config_requests          IncrementalAlterConfigs and AlterConfigs
config_listing           ListConfigResources
config_definitions       every config of Kafka, generated from its jars
config_table             the parsed definitions: types, defaults, rules
config_values            parsing and validation of values
partition_configs        parsing of the configs that decide about partitions
topic_configs            validation of a topic's configs
group_configs            validation of a group's configs
client_metrics_configs   validation of client metrics subscriptions
effective_configs        effective configs and their sources
config_effects           partition changes caused by config changes
configs                  validation of config changes, and their records
features                 UpdateFeatures
metadata_versions        every feature: levels, releases and dependencies
bootstrap_metadata       the initial feature levels of a new cluster
security_records         ACLs, SCRAM credentials, client quotas and delegation tokens, from their records
acl_requests             CreateAcls, DeleteAcls, DescribeAcls
scram_credentials        SCRAM credentials of users
scram_requests           AlterUserScramCredentials, DescribeUserScramCredentials
client_quotas            AlterClientQuotas, DescribeClientQuotas
delegation_tokens        CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken
request_context          the requester, and the part of a divided request that a message is
steps                    work in steps of a few microseconds, between which the caller can pause
producer_ids             AllocateProducerIds
directories              AssignReplicasToDirs
"""
