"""The verbs of Kafka's tools that are tested with every version and voter style: the rows of docs/stock-kafka.md.

In arguments, {B} stands for `--bootstrap-server` with the brokers, and {C} for `--bootstrap-controller` with the
nodes of quorumd; other names in braces are values of the cell, see `matrix.Cell.names`. Rows depend on earlier rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.interop.stock_tools.tools import (
    CONSUMER,
    FEATURES,
    LEADER_ELECTION,
    OFFSETS,
    PRODUCER,
    REASSIGN,
    STORAGE,
    TOPICS,
)

TOOLS = {
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": CONSUMER,
    "kafka-console-producer": PRODUCER,
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "",
    "kafka-features": FEATURES,
    "kafka-get-offsets": OFFSETS,
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": LEADER_ELECTION,
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-metadata-shell": "org.apache.kafka.shell.MetadataShell",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": REASSIGN,
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-storage": STORAGE,
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics": TOPICS,
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
"""The classes that Kafka's scripts run; the class of kafka-dump-log depends on the version."""
RECORDS = 1000
LINES = "".join(f"record {number}\n" for number in range(RECORDS))


@dataclass(frozen=True, slots=True)
class Row:
    """A run of a tool, which must end with `code` and print output that `expects` matches."""

    tool: str
    arguments: str
    expects: str = ""
    """A regular expression that is searched in the output of the tool; `.` also matches line breaks."""
    code: int = 0
    lines: int | None = None
    """The number of lines on stdout; None if any number is valid."""
    stdin: str = ""
    since: tuple[int, int] = (4, 0)
    """The first release of brokers and tools with this verb."""
    needs_own_tools: bool = False
    """Whether the tools must have the release of the brokers, since older tools do not know its metadata.version."""
    is_eventual: bool = False
    """Whether the run is retried for a time, since an earlier row may take effect later."""

    @property
    def command(self) -> str:
        """The command in the documentation, which is also the key of the row in the results."""
        return f"{self.tool} {self.arguments}".strip()


def configs(entity: str, config: str, *, since: tuple[int, int] = (4, 0)) -> list[Row]:
    """Return rows that set, describe and delete a config of an entity."""
    name, _, value = config.partition("=")
    on = f"{{B}} {entity}"
    return [
        Row("kafka-configs", f"{on} --alter --add-config {config}", "Completed updating", since=since),
        Row("kafka-configs", f"{on} --describe", rf"{name}={value}", since=since, is_eventual=True),
        Row("kafka-configs", f"{on} --alter --delete-config {name}", "Completed updating", since=since),
    ]


STORAGE_ROWS = [
    Row("kafka-storage", "random-uuid", r"^\S{22}\s*$"),
    Row("kafka-storage", "info --config {node}", r"Found log directory:.*Found metadata:.*node\.id=1"),
    Row(
        "kafka-storage",
        "format --cluster-id {cluster} --config {observer} --no-initial-controllers",
        "already formatted",
        code=1,
    ),
]
FEATURE_ROWS = [
    Row(
        "kafka-features",
        "{B} describe",
        r"kraft\.version.*FinalizedVersionLevel: 1.*metadata\.version.*Epoch: \d+",
    ),
    Row(
        "kafka-features",
        "{C} describe",
        r"kraft\.version.*FinalizedVersionLevel: 1.*metadata\.version.*Epoch: \d+",
    ),
    Row(
        "kafka-features",
        "{B} upgrade --release-version {release}",
        r"metadata\.version was upgraded to",
        needs_own_tools=True,
    ),
    Row(
        "kafka-features",
        "{C} upgrade --release-version {release}",
        r"metadata\.version was upgraded to",
        needs_own_tools=True,
    ),
    Row("kafka-features", "{B} upgrade --feature group.version=1", r"group\.version was upgraded to 1"),
    Row(
        "kafka-features",
        "{B} upgrade --feature share.version={share}",
        r"share\.version was upgraded to",
        since=(4, 1),
    ),
    Row("kafka-features", "{B} upgrade --feature eligible.leader.replicas.version=1", "was upgraded to 1"),
    Row("kafka-features", "{B} upgrade --feature metadata.version=99", "metadata.version", code=1),
    Row(
        "kafka-features", "{B} downgrade --feature transaction.version=1 --dry-run", "can be downgraded to 1"
    ),
    Row("kafka-features", "{B} downgrade --feature transaction.version=1", "was downgraded to 1"),
    Row("kafka-features", "{B} upgrade --feature transaction.version=2", "was upgraded to 2"),
]
TOPIC_ROWS = [
    Row(
        "kafka-topics",
        "{B} --create --topic orders --partitions 6 --replication-factor 3",
        "Created topic orders",
    ),
    Row(
        "kafka-topics",
        "{B} --create --topic paid --partitions 3 --config retention.ms=60000",
        "Created topic paid",
    ),
    Row(
        "kafka-topics", "{B} --create --topic gone --replica-assignment 101:102,102:103", "Created topic gone"
    ),
    Row("kafka-topics", "{B} --create --topic orders", "TopicExistsException", code=1),
    Row(
        "kafka-topics",
        "{B} --create --topic many --replication-factor 9",
        "InvalidReplicationFactorException",
        code=1,
    ),
    Row("kafka-topics", "{B} --list", "gone.*orders.*paid", is_eventual=True),
    Row(
        "kafka-topics",
        "{B} --describe --topic orders",
        "PartitionCount: 6.*ReplicationFactor: 3",
        is_eventual=True,
    ),
    Row("kafka-topics", "{B} --alter --topic paid --partitions 4"),
    Row(
        "kafka-topics",
        "{B} --describe --topic paid",
        r"PartitionCount: 4.*retention\.ms=60000",
        is_eventual=True,
    ),
    Row("kafka-topics", "{B} --delete --topic gone"),
    Row("kafka-topics", "{B} --describe --topics-with-overrides", "Topic: paid", is_eventual=True),
]
_READ = "{B} --from-beginning --timeout-ms 60000"
CLIENT_ROWS = [
    Row("kafka-console-producer", "{B} --topic orders {producer}=enable.idempotence=true", r"^\W*$", stdin=LINES),
    Row("kafka-get-offsets", "{B} --topic orders", "orders:0:.*orders:5:", lines=6),
    Row("kafka-console-consumer", f"{_READ} --topic orders --group classic --max-messages {RECORDS} "
        "{consumer}=group.protocol=classic", f"Processed a total of {RECORDS} messages", lines=RECORDS),
    Row("kafka-console-consumer", f"{_READ} --topic orders --group kip848 --max-messages {RECORDS} "
        "{consumer}=group.protocol=consumer", f"Processed a total of {RECORDS} messages", lines=RECORDS),
    Row("kafka-producer-perf-test", "--topic paid --num-records 1000 --record-size 100 --throughput -1 "
        "--transactional-id tx --transaction-duration-ms 200 --producer-props bootstrap.servers={brokers}",
        "1000 records sent"),
    Row("kafka-console-consumer", f"{_READ} --topic paid --group committed --max-messages {RECORDS} "
        "--isolation-level read_committed", f"Processed a total of {RECORDS} messages", lines=RECORDS),
    Row("kafka-configs", "{B} --entity-type groups --entity-name shared --alter "
        "--add-config share.auto.offset.reset=earliest", "Completed updating", since=(4, 1)),
    Row("kafka-console-share-consumer", "{B} --topic orders --group shared --timeout-ms 60000 "
        f"--max-messages {RECORDS}", f"Processed a total of {RECORDS} messages", lines=RECORDS, since=(4, 1)),
]  # fmt: skip
GROUP_ROWS = [
    Row("kafka-groups", "{B} --list", "classic.*kip848"),
    Row("kafka-consumer-groups", "{B} --list", "classic.*kip848"),
    Row("kafka-consumer-groups", "{B} --describe --group kip848", "orders"),
    Row(
        "kafka-consumer-groups",
        "{B} --group classic --reset-offsets --to-earliest --topic orders --execute",
        "orders",
    ),
    Row("kafka-consumer-groups", "{B} --delete --group classic", "successful"),
    Row("kafka-share-groups", "{B} --list", "shared", since=(4, 1)),
    Row("kafka-share-groups", "{B} --describe --group shared", "orders", since=(4, 1)),
    Row("kafka-streams-groups", "{B} --list", r"^\s*$", since=(4, 2)),
]
TRANSACTION_ROWS = [
    Row("kafka-transactions", "{B} list", "tx.*CompleteCommit", is_eventual=True),
    Row("kafka-transactions", "{B} describe --transactional-id tx", "CompleteCommit"),
    Row("kafka-transactions", "{B} describe-producers --topic paid --partition 0", "ProducerId"),
    Row("kafka-transactions", "{B} find-hanging --broker-id 101", r"Topic\s+Partition\s+ProducerId"),
    Row("kafka-transactions", "{B} forceTerminateTransaction --transactionalId tx", since=(4, 1)),
]
QUORUM_ROWS = [
    Row("kafka-metadata-quorum", "{B} describe --status", r"LeaderId:\s+\d+.*HighWatermark:\s+\d+.*CurrentVoters"),
    Row("kafka-metadata-quorum", "{C} describe --status", r"LeaderId:\s+\d+.*HighWatermark:\s+\d+.*CurrentVoters"),
    Row("kafka-metadata-quorum", "{B} describe --replication", "Leader.*Follower.*Follower.*Observer"),
    Row("kafka-metadata-quorum", "{C} describe --replication", "Leader.*Follower.*Follower.*Observer"),
    Row("kafka-metadata-quorum", "{C} --command-config {observer} add-controller", "Added controller 4"),
    Row("kafka-metadata-quorum", "{C} remove-controller --controller-id 4 --controller-directory-id {directory}",
        r"Removed\s+KRaft controller 4"),
    Row("kafka-metadata-quorum", "{B} --command-config {observer} add-controller", "Added controller 4"),
    Row("kafka-metadata-quorum", "{B} remove-controller --controller-id 4 --controller-directory-id {directory}",
        r"Removed\s+KRaft controller 4"),
]  # fmt: skip
CONFIG_ROWS = [
    *configs("--entity-type topics --entity-name orders", "retention.ms=3600000"),
    *configs("--entity-type brokers --entity-name 101", "log.cleaner.threads=2"),
    *configs("--entity-type brokers --entity-default", "log.cleaner.threads=2"),
    *configs("--entity-type groups --entity-name kip848", "consumer.session.timeout.ms=50000"),
    *configs("--entity-type client-metrics --entity-name sampled", "interval.ms=10000"),
    Row(
        "kafka-configs",
        "{B} --entity-type broker-loggers --entity-name 101 --describe",
        "org.apache.kafka|root",
    ),
    Row(
        "kafka-configs",
        "{B} --entity-type topics --entity-name orders --alter --add-config retention.ms=soon",
        "retention.ms",
        code=1,
    ),
    Row("kafka-configs", "{C} --entity-type brokers --entity-name 1 --describe", "configs for broker 1"),
    Row("kafka-client-metrics", "{B} --alter --name pushed --metrics org.apache --interval 10000", "Altered"),
    Row("kafka-client-metrics", "{B} --list", "pushed", is_eventual=True),
    Row("kafka-client-metrics", "{B} --describe --name pushed", r"interval\.ms=10000", is_eventual=True),
    Row("kafka-client-metrics", "{B} --delete --name pushed", "Deleted"),
]
_QUOTAS = {"users": "alice", "clients": "app", "ips": "127.0.0.9"}
QUOTA_ROWS = [
    Row(
        "kafka-configs",
        f"{{B}} --entity-type {kind} --entity-name {name} --alter --add-config {quota}",
        "Completed",
    )
    for (kind, name), quota in zip(
        _QUOTAS.items(),
        ("producer_byte_rate=1024", "consumer_byte_rate=1024", "connection_creation_rate=7"),
        strict=True,
    )
]
PARTITION_ROWS = [
    Row("kafka-reassign-partitions", "{B} --generate --topics-to-move-json-file {topics} --broker-list 101,102,103",
        "Proposed partition reassignment configuration"),
    Row("kafka-reassign-partitions", "{B} --execute --reassignment-json-file {plan}", "Successfully started"),
    Row("kafka-reassign-partitions", "{B} --verify --reassignment-json-file {plan}",
        "Reassignment of partition orders-0 is completed", is_eventual=True),
    Row("kafka-reassign-partitions", "{C} --list", "No partition reassignments found"),
    Row("kafka-reassign-partitions", "{B} --list", "No partition reassignments found"),
    Row("kafka-reassign-partitions", "{B} --cancel --reassignment-json-file {plan}", "None of the specified"),
    Row("kafka-leader-election", "{B} --election-type preferred --all-topic-partitions", r"^\s*$|Successfully|Valid"),
    Row("kafka-leader-election", "{B} --election-type preferred --topic orders --partition 0",
        "Valid replica already"),
    Row("kafka-leader-election", "{B} --election-type unclean --topic orders --partition 0",
        "Valid replica already"),
    Row("kafka-delete-records", "{B} --offset-json-file {deleted}", r"partition: orders-0\s+low_watermark: \d+"),
    Row("kafka-log-dirs", "{B} --describe --topic-list orders", '"partition":"orders-0"'),
]  # fmt: skip
CLUSTER_ROWS = [
    Row("kafka-cluster", "cluster-id {B}", "Cluster ID: {cluster}"),
    Row("kafka-cluster", "cluster-id {C}", "Cluster ID: {cluster}"),
    Row("kafka-cluster", "list-endpoints {B}", "101.*102.*103"),
    Row("kafka-cluster", "list-endpoints {C}", r"\d+\s+127.0.0.1.*controller"),
    Row("kafka-cluster", "unregister {B} --id 99", "BrokerIdNotRegisteredException", code=1),
    Row("kafka-broker-api-versions", "{B}", r"id: 101.*Produce\(0\)"),
]
FILE_ROWS = [
    Row("kafka-dump-log", "--cluster-metadata-decoder --files {segment}", "type.*TOPIC_RECORD"),
    Row("kafka-dump-log", "--cluster-metadata-decoder --files {snapshot}", "SnapshotHeader.*TOPIC_RECORD"),
    Row(
        "kafka-metadata-shell",
        "--snapshot {snapshot} ls image",
        "cluster.*features.*topics",
        needs_own_tools=True,
    ),
    Row(
        "kafka-metadata-shell", "--snapshot {snapshot} ls image/topics/byName", "orders", needs_own_tools=True
    ),
]
ROWS = [
    *STORAGE_ROWS, *FEATURE_ROWS, *TOPIC_ROWS, *CLIENT_ROWS, *GROUP_ROWS, *TRANSACTION_ROWS, *QUORUM_ROWS,
    *CONFIG_ROWS, *QUOTA_ROWS, *PARTITION_ROWS, *CLUSTER_ROWS, *FILE_ROWS,
]  # fmt: skip
STOPPED_ROWS = [
    Row("kafka-cluster", "unregister {B} --id 103", "Broker 103 is no longer registered", is_eventual=True),
]
"""Rows that run after broker 103 has been stopped."""
