"""`quorumd topics`: create, list, describe, extend and delete topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.command_group import CommandGroup
from quorumd.cli.configs import TYPES, parse_assignments
from quorumd.cli.output import JsonObject, columns, listed_ids, print_json
from quorumd.errors import ErrorCode, RequestFailed

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.client.admin import AdminClient, TopicPartition
    from quorumd.protocol.messages.describe_topic_partitions_response import (
        DescribeTopicPartitionsResponsePartition,
        DescribeTopicPartitionsResponseTopic,
    )
    from quorumd.protocol.messages.list_partition_reassignments_response import OngoingPartitionReassignment

LIST_COLUMNS = ("Topic", "Partitions", "ReplicationFactor", "UnderReplicated", "Leaderless")
PARTITION_COLUMNS = ("Partition", "Leader", "Epoch", "Replicas", "Isr", "Elr", "LastKnownElr")
REASSIGNMENT_COLUMNS = ("Adding", "Removing")
UNKNOWN_COUNT = -1
"""The counts of a new topic in a response to a client that lacks DESCRIBE_CONFIGS on it."""
OWN_CONFIG = 1
"""The DescribeConfigs source of a config set on the topic itself."""


@click.group(cls=CommandGroup)
def topics() -> None:
    """Create, list, describe, extend and delete topics.

    \b
    Examples:
      quorumd topics create orders --bootstrap-server 127.0.0.1:9192 --partitions 12 --replication-factor 3
      quorumd topics describe orders --bootstrap-server 127.0.0.1:9192
    """


@topics.command()
@click.argument("name")
@click.option(
    "--partitions", type=click.IntRange(min=1), help="Create this many partitions.  [default: num.partitions]"
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 32_767),
    help="Create this many replicas per partition.  [default: default.replication.factor]",
)
@click.option(
    "--replica-assignment",
    "assignments",
    type=options.replica_assignments,
    metavar="ID:ID,...",
    help="Place the replicas of each partition on these brokers, the preferred leader first.",
)
@click.option(
    "--config", "settings", metavar="KEY=VALUE", multiple=True, help="Set this topic config; may be repeated."
)
@click.option("--if-not-exists", is_flag=True, help="Succeed without changes if the topic already exists.")
@click.option("--validate-only", is_flag=True, help="Validate the request without changing anything.")
@options.bootstrap_server
@options.output
def create(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    assignments: dict[int, tuple[int, ...]] | None,
    settings: tuple[str, ...],
    if_not_exists: bool,
    validate_only: bool,
    servers: Addresses,
    output: str,
) -> None:
    """Create a topic and return once it is committed. Its replicas are spread over racks and brokers.

    \b
    Examples:
      quorumd topics create orders --bootstrap-server 127.0.0.1:9192 --partitions 12 --replication-factor 3 \\
        --config min.insync.replicas=2
      quorumd topics create orders --bootstrap-server 127.0.0.1:9192 --replica-assignment 1:2:3,2:3:1
    """
    if assignments is not None and (partitions is not None or replication_factor is not None):
        raise click.UsageError(
            "--replica-assignment cannot be combined with --partitions and --replication-factor"
        )
    configs = parse_assignments(settings)

    async def create_topic(admin: AdminClient) -> JsonObject:
        try:
            created = await admin.create_topic(
                name,
                partitions,
                replication_factor,
                assignments=assignments,
                configs=configs,
                validate_only=validate_only,
            )
        except RequestFailed as failure:
            if not if_not_exists or failure.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
            (found,) = await admin.describe_topics([name])
            return {"created": False, **topic_row(found, await _ongoing_reassignments(admin))}
        return {
            "created": not validate_only,
            "topic": name,
            "topicId": str(created.topic_id),
            "partitions": created.num_partitions,
            "replicationFactor": created.replication_factor,
        }

    _show_created(run_admin(servers, create_topic), validate_only, output)


async def _ongoing_reassignments(
    admin: AdminClient, partitions: Sequence[TopicPartition] | None = None
) -> dict[TopicPartition, OngoingPartitionReassignment]:
    """The reassignments in progress; none for a client that may describe topics but not the cluster, as in
    `kafka-topics`."""
    try:
        return await admin.list_reassignments(partitions)
    except RequestFailed as failure:
        if failure.error_code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return {}


def _show_created(topic: JsonObject, validate_only: bool, output: str) -> None:
    if output == "json":
        print_json(topic)
        return
    done = "created" if topic["created"] else "can be created" if validate_only else "already exists"
    shown = f"{done}: topic {topic['topic']!r}"
    if topic["partitions"] != UNKNOWN_COUNT:
        shown += (
            f", {counted(topic['partitions'], 'partition')}, replication factor {topic['replicationFactor']}"
        )
    click.echo(shown)


@topics.command("list")
@options.bootstrap_server
@options.output
def list_command(servers: Addresses, output: str) -> None:
    """List all topics with the numbers of their under-replicated and leaderless partitions.

    \b
    Examples:
      quorumd topics list --bootstrap-server 127.0.0.1:9192
      quorumd topics list --bootstrap-server 127.0.0.1:9192 --output json
    """

    async def listed(admin: AdminClient) -> list[JsonObject]:
        ongoing = await _ongoing_reassignments(admin)
        described = await admin.describe_topics()
        return [topic_row(topic, ongoing) for topic in sorted(described, key=lambda topic: topic.name or "")]

    rows = run_admin(servers, listed)
    if output == "json":
        print_json(rows)
    else:
        keys = ("topic", "partitions", "replicationFactor", "underReplicated", "leaderless")
        click.echo(columns(LIST_COLUMNS, [[row[key] for key in keys] for row in rows]))


@topics.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@options.bootstrap_server
@options.output
def describe(names: tuple[str, ...], servers: Addresses, output: str) -> None:
    """Describe topics and their partitions.

    Leader none: the partition has no leader. Isr: the in-sync replicas. Elr: the eligible leader replicas, out of
    sync but known to have every committed record (KIP-966). Adding and Removing: the replicas that a reassignment in
    progress adds and removes.

    \b
    Examples:
      quorumd topics describe orders --bootstrap-server 127.0.0.1:9192
      quorumd topics describe orders payments --bootstrap-server 127.0.0.1:9192 --output json
    """

    async def described(admin: AdminClient) -> list[JsonObject]:
        from quorumd.client.admin import TopicPartition

        found = await admin.describe_topics(sorted(set(names)))
        ongoing = await _ongoing_reassignments(
            admin,
            [
                TopicPartition(topic.name or "", p.partition_index)
                for topic in found
                for p in topic.partitions
            ],
        )
        shown = []
        for topic in found:
            configs = await admin.describe_configs(TYPES["topic"], topic.name or "")
            own = {config.name: config.value for config in configs if config.config_source == OWN_CONFIG}
            moves = {where.partition: move for where, move in ongoing.items() if where.topic == topic.name}
            partitions = [
                partition_row(partition, moves.get(partition.partition_index))
                for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
            ]
            shown.append({**topic_row(topic, ongoing), "configs": own, "partitions": partitions})
        return shown

    shown = run_admin(servers, described)
    if output == "json":
        print_json(shown)
    else:
        click.echo("\n\n".join(topic_text(topic) for topic in shown))


@topics.command("add-partitions")
@click.argument("name")
@click.option(
    "--partitions",
    "total",
    type=click.IntRange(min=1),
    required=True,
    help="Raise the topic's total number of partitions to this.",
)
@click.option("--validate-only", is_flag=True, help="Validate the request without changing anything.")
@options.bootstrap_server
@options.output
def add_partitions(name: str, total: int, validate_only: bool, servers: Addresses, output: str) -> None:
    """Add partitions to a topic.

    Keys may map to other partitions afterwards. Partitions cannot be removed.

    \b
    Example:
      quorumd topics add-partitions orders --bootstrap-server 127.0.0.1:9192 --partitions 24
    """
    run_admin(servers, lambda admin: admin.add_partitions(name, total, validate_only=validate_only))
    if output == "json":
        print_json({"topic": name, "partitions": total, "added": not validate_only})
    else:
        done = f"valid: topic {name!r} can have" if validate_only else f"committed: topic {name!r} has"
        click.echo(f"{done} {counted(total, 'partition')}")


@topics.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="Succeed if the topic does not exist.")
@options.bootstrap_server
@options.output
def delete(names: tuple[str, ...], if_exists: bool, servers: Addresses, output: str) -> None:
    """Delete topics and all their records, permanently, one after the other.

    \b
    Example:
      quorumd topics delete orders payments --bootstrap-server 127.0.0.1:9192
    """

    async def delete_topics(admin: AdminClient) -> tuple[list[str], list[RequestFailed]]:
        deleted, failures = [], []
        for name in dict.fromkeys(names):
            try:
                await admin.delete_topic(name)
                deleted.append(name)
            except RequestFailed as failure:
                if not if_exists or failure.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    failures.append(failure)
        return deleted, failures

    deleted, failures = run_admin(servers, delete_topics)
    if output == "json":
        print_json({"deleted": deleted})
    elif deleted:
        click.echo(f"deleted: {', '.join(deleted)}")
    elif not failures:
        click.echo("nothing to delete: no such topic")
    if failures:
        raise RequestFailed("\n".join(map(str, failures)))


def topic_row(
    topic: DescribeTopicPartitionsResponseTopic,
    ongoing: Mapping[TopicPartition, OngoingPartitionReassignment],
) -> JsonObject:
    """One topic of the list. Replicas added by a reassignment in progress do not count."""
    from quorumd.client.admin import TopicPartition

    partitions = topic.partitions
    settled = {}
    for partition in partitions:
        move = ongoing.get(TopicPartition(topic.name or "", partition.partition_index))
        adding = len(move.adding_replicas) if move is not None else 0
        settled[partition.partition_index] = len(partition.replica_nodes) - adding
    return {
        "topic": topic.name,
        "topicId": str(topic.topic_id),
        "partitions": len(partitions),
        "replicationFactor": max(settled.values(), default=0),
        "underReplicated": sum(len(p.isr_nodes) < settled[p.partition_index] for p in partitions),
        "leaderless": sum(p.leader_id < 0 for p in partitions),
    }


def partition_row(
    partition: DescribeTopicPartitionsResponsePartition, move: OngoingPartitionReassignment | None
) -> JsonObject:
    """One partition in `topics describe --output json`."""
    return {
        "partition": partition.partition_index,
        "leader": partition.leader_id,
        "leaderEpoch": partition.leader_epoch,
        "replicas": partition.replica_nodes,
        "isr": partition.isr_nodes,
        "elr": partition.eligible_leader_replicas or [],
        "lastKnownElr": partition.last_known_elr or [],
        "adding": [] if move is None else move.adding_replicas,
        "removing": [] if move is None else move.removing_replicas,
    }


def topic_text(topic: JsonObject) -> str:
    """One line for the topic and one per partition."""
    rows = topic["partitions"]
    is_moving = any(row["adding"] or row["removing"] for row in rows)
    cells = [
        [
            row["partition"],
            "none" if row["leader"] < 0 else row["leader"],
            row["leaderEpoch"],
            *(listed_ids(row[key]) for key in ("replicas", "isr", "elr", "lastKnownElr")),
            *((listed_ids(row["adding"]), listed_ids(row["removing"])) if is_moving else ()),
        ]
        for row in rows
    ]
    header = PARTITION_COLUMNS + (REASSIGNMENT_COLUMNS if is_moving else ())
    configs = ",".join(f"{key}={value}" for key, value in topic["configs"].items()) or "-"
    return (
        f"Topic: {topic['topic']}  TopicId: {topic['topicId']}  Partitions: {len(rows)}  "
        f"ReplicationFactor: {topic['replicationFactor']}  Configs: {configs}\n{columns(header, cells)}"
    )


def counted(number: int, noun: str) -> str:
    """A number with a noun: `1 partition`, `12 partitions`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
