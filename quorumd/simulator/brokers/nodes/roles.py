"""The broker role of simulated nodes: few partitions of internal topics, and intervals that fit seconds of virtual
time."""

from __future__ import annotations

from typing import Final

from quorumd.broker.settings.api_settings import ApiSettings
from quorumd.broker.settings.broker_settings import BrokerSettings, HousekeepingSettings, ReplicaFetchSettings
from quorumd.broker.settings.coordinator_settings import GroupSettings, TransactionSettings
from quorumd.controller.broker import BrokerEndpoint
from quorumd.ids import Endpoint
from quorumd.node.broker_settings import BrokerRoleSettings
from quorumd.simulator.brokers.options import BrokerOptions

FIRST_BROKER: Final = 101
"""The id of the first node that has only the broker role."""
LISTENER: Final = "PLAINTEXT"
CLIENT_PORT: Final = 9093
"""The port of the listener for clients on a node with both roles."""
INTERNAL_PARTITIONS: Final = 2
LEAST_SEGMENT_BYTES: Final = 1 << 20
"""The smallest segment.bytes that the controller accepts for a topic."""
LONGEST_MS: Final = (1 << 63) - 1


def broker_ids(options: BrokerOptions) -> tuple[int, ...]:
    """Return the ids of the nodes with the broker role: the first voters, then nodes without a vote."""
    return (*range(1, options.combined + 1), *range(FIRST_BROKER, FIRST_BROKER + options.nodes))


def log_directories(options: BrokerOptions) -> tuple[str, ...]:
    """Return the log directories for partitions; the metadata log has a directory of its own."""
    return tuple(f"/logs-{number + 1}" for number in range(options.log_directories))


def client_address(node_id: int, host: str, port: int) -> tuple[str, int]:
    """Return the address of the client listener of a node with the broker role; `port` is the port of its quorum
    listener."""
    return host, CLIENT_PORT if node_id < FIRST_BROKER else port


def broker_role(node_id: int, host: str, port: int, options: BrokerOptions) -> BrokerRoleSettings:
    """Return the settings of the broker role of a node at this address."""
    address = client_address(node_id, host, port)
    groups, transactions = _coordinators(options)
    settings = BrokerSettings(
        broker_id=node_id,
        cluster_id="",
        log_directories=log_directories(options),
        listeners=(BrokerEndpoint(LISTENER, *address, 0),),
        rack=f"rack-{node_id % options.racks}" if options.racks else None,
        replica_lag_time_max_ms=options.longest_lag_ms,
        heartbeat_interval_ms=options.heartbeat_ms,
        auto_create_topics=False,
        log_defaults={
            "segment.bytes": str(options.segment_bytes),
            "file.delete.delay.ms": "200",
            # Wall clocks jump, so the timestamps of producers may be far from the broker's time.
            "message.timestamp.after.max.ms": str(LONGEST_MS),
            "retention.ms": "-1",
            "producer.id.expiration.ms": str(LONGEST_MS),
            **({"flush.messages": "1"} if options.flushes_messages else {}),
        },
        groups=groups,
        transactions=transactions,
        fetch=ReplicaFetchSettings(
            wait_max_ms=int(options.fetch_wait_ms),
            backoff_ms=100.0,
            timeout_ms=4 * options.fetch_wait_ms + 500.0,
        ),
        housekeeping=HousekeepingSettings(
            high_watermark_checkpoint_ms=options.flush_ms,
            offset_checkpoint_ms=2 * options.flush_ms,
            flush_check_ms=options.flush_ms,
            retention_check_ms=options.flush_ms,
            cleaner_backoff_ms=options.flush_ms,
        ),
        api=ApiSettings(is_rack_aware=options.racks > 0),
    )
    return BrokerRoleSettings(settings, (Endpoint(LISTENER, *address),) if address[1] != port else ())


def _coordinators(options: BrokerOptions) -> tuple[GroupSettings, TransactionSettings]:
    replicas = min(3, len(broker_ids(options)))
    timeout_ms = int(options.write_timeout_ms)
    groups = GroupSettings(
        min_session_timeout_ms=100,
        initial_rebalance_delay_ms=20,
        commit_timeout_ms=timeout_ms,
        topic_partitions=INTERNAL_PARTITIONS,
        topic_replication_factor=replicas,
        topic_segment_bytes=LEAST_SEGMENT_BYTES,
        offsets_retention_ms=LONGEST_MS,
        consumer_session_timeout_ms=int(options.session_timeout_ms),
        consumer_heartbeat_interval_ms=int(options.heartbeat_ms),
        consumer_regex_min_interval_ms=int(2 * options.heartbeat_ms),
    )
    transactions = TransactionSettings(
        abort_timed_out_interval_ms=200,
        id_expiration_ms=LONGEST_MS,
        topic_partitions=INTERNAL_PARTITIONS,
        topic_replication_factor=replicas,
        topic_min_isr=min(2, replicas),
        topic_segment_bytes=LEAST_SEGMENT_BYTES,
        write_timeout_ms=timeout_ms,
    )
    return groups, transactions
