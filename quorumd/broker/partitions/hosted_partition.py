"""A partition with a replica on this broker."""

from __future__ import annotations

from quorumd.broker.log.partition_log import PartitionLog
from quorumd.broker.log_management.directories import LogDirectory
from quorumd.broker.replication.replica import Replica
from quorumd.controller.partition import PartitionId


class HostedPartition:
    """`topic`: its name. `min_isr`: min.insync.replicas of the topic. `is_open`: False once the replica is removed or
    its log directory has failed; its log must not be used then."""

    __slots__ = ("directory", "id", "is_open", "min_isr", "replica", "topic")

    def __init__(
        self,
        id: PartitionId,
        topic: str,
        directory: LogDirectory,
        replica: Replica[PartitionLog],
        min_isr: int,
    ) -> None:
        self.id = id
        self.topic = topic
        self.directory = directory
        self.replica = replica
        self.min_isr = min_isr
        self.is_open = True

    def __repr__(self) -> str:
        return f"<{self.name}: {self.replica}>"

    @property
    def log(self) -> PartitionLog:
        return self.replica.log

    @property
    def name(self) -> str:
        """`<topic>-<partition>`."""
        return f"{self.topic}-{self.id.number}"

    @property
    def is_leader(self) -> bool:
        return self.replica.leadership is not None
