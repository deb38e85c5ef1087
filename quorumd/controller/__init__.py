"""Metadata decisions, pure: the image of the cluster and what a request makes of it.

State, a function of the log:

cluster_image      what the records so far add up to; every change can be taken back
assignment         a change that can be taken back: an assignment to a key of a dictionary
broker             one registered broker, a value
partition          one partition, a value; what a change record makes of it
shared_tuples      equal replicas and directories are one object: there are a million partitions
partition_index    which partitions a broker holds, leads, or waits for
kept_records       records that are kept as they were written: access control, credentials, quotas, controllers
controllers        the registered controllers, values read from the kept records
image_hash         one number of the whole image, kept up to date: what nodes compare
image_records      the image as records again: what a snapshot is made of
record_versions    in which version a record is written at a metadata version, and what that cannot carry

Every record type of Kafka has its place in the image and its snapshots. One that is not known, or in a later version,
is refused with its offset: nothing is passed over.

Decisions. A `plan_*` function looks at the `Controller` and a request and returns a `Plan`: the records to append,
all or none, and the answer to give once they are committed. Planning changes nothing.

controller         what decisions look at: image, sessions of brokers, time, offsets
plan               records and answer
broker_sessions    who was heard of when: the state of the leader that is not in the log
broker_registration  BrokerRegistration and UnregisterBroker
controller_registration  ControllerRegistration and UnregisterController
broker_heartbeat   BrokerHeartbeat: what a broker becomes by what it says
broker_lifecycle   what becomes of partitions when a broker is fenced, unfenced, drained, starts anew, or is removed
partition_change   the one function behind every change of a partition (ISR, ELR, leader, epochs)
rules              what changes of a topic's partitions depend on
reassignment       start, override, cancel and completion of a reassignment
alter_partition    AlterPartition: its checks in their order
reassignments      AlterPartitionReassignments and ListPartitionReassignments
elections          ElectLeaders, and elections that the controller holds by itself
leader_balance     gives leadership back to preferred leaders
topic_creation     CreateTopics
topic_deletion     DeleteTopics
partition_creation CreatePartitions
new_partitions     what the creation of topics and of partitions have in common
placement          which brokers a new partition goes to
topic_names        what a topic may be called
config_definitions every config of Kafka, generated from its jars
config_table       the same as a table: types, defaults, rules
config_values      what a value means, and whether its rule allows it
topic_configs      whether a topic can have configs, all together
group_configs      the same of a group
client_metrics_configs  the same of a subscription to clients' metrics
effective_configs  what holds for a topic, and where it comes from
config_effects     what a change of configs does to partitions
configs            IncrementalAlterConfigs and AlterConfigs: validation and the records they need
features           UpdateFeatures
metadata_versions  every feature, its levels, their releases, and what they need
bootstrap_metadata the features that a new cluster begins with
producer_ids       AllocateProducerIds
directories        AssignReplicasToDirs
"""
