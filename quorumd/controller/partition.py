"""The state of one partition in the metadata log, and its change records.

A cluster may have a million partitions, so they have slots and share equal tuples (`intern_pool`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from quorumd.controller.intern_pool import InternPool
from quorumd.controller.intern_pool import Replicas as Replicas
from quorumd.errors import MalformedMessage
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord

NO_LEADER: Final = -1
LEADER_UNCHANGED: Final = -2
RECOVERY_UNCHANGED: Final = -1

RECOVERED: Final = 0
RECOVERING: Final = 1
"""The leader was elected uncleanly: it may lack committed records and is the only member of the ISR (KIP-704)."""


class PartitionId(NamedTuple):
    """A partition, identified by topic id."""

    topic_id: KafkaUuid
    number: int


_NOT_IN_IMAGE: Final = PartitionId(ZERO_UUID, -1)


class Partition:
    """The immutable state of a partition."""

    __slots__ = (
        "adding",
        "directories",
        "elr",
        "id",
        "isr",
        "last_known_elr",
        "leader",
        "leader_epoch",
        "original",
        "partition_epoch",
        "recovery",
        "removing",
        "replicas",
        "row",
    )

    def __init__(
        self,
        replicas: Replicas,
        isr: Replicas,
        leader: int,
        leader_epoch: int = 0,
        partition_epoch: int = 0,
        adding: Replicas = (),
        removing: Replicas = (),
        original: Replicas = (),
        elr: Replicas = (),
        last_known_elr: Replicas = (),
        recovery: int = RECOVERED,
        directories: tuple[KafkaUuid, ...] = (),
    ) -> None:
        self.replicas = replicas
        """Broker ids, the preferred leader first."""
        self.isr = isr
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.adding = adding
        """The replicas that the reassignment in progress adds; empty without one (KIP-455)."""
        self.removing = removing
        """The replicas that it removes."""
        self.original = original
        """The replicas before the reassignment, in their order."""
        self.elr = elr
        """The replicas that are not in the ISR but known to have every committed record (KIP-966)."""
        self.last_known_elr = last_known_elr
        """The last leader of a partition that lost its leader and its ISR."""
        self.recovery = recovery
        self.directories = directories
        """The directory id of each replica."""
        self.id = _NOT_IN_IMAGE
        """Its topic and number. `row`: the hash of all (`image_hash.partition_row`). Both are set when an image gets
        the partition."""
        self.row = 0

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> Replicas:
        """The replicas after the reassignment in progress, if any."""
        if not self.removing:
            return self.replicas
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def has_preferred_leader(self) -> bool:
        """Whether the first replica is the leader; False without replicas."""
        return bool(self.replicas) and self.leader == self.replicas[0]

    @property
    def electable_preferred_leader(self) -> int:
        """The first replica if it is in sync but not the leader, else NO_LEADER."""
        if not self.replicas or self.leader == self.replicas[0] or self.replicas[0] not in self.isr:
            return NO_LEADER
        return self.replicas[0]

    def without_elr(self) -> Partition:
        """Return the partition after a ClearElrRecord (KIP-966), which also increments the partition epoch."""
        return Partition(
            self.replicas,
            self.isr,
            self.leader,
            self.leader_epoch,
            self.partition_epoch + 1,
            self.adding,
            self.removing,
            self.original,
            (),
            (),
            self.recovery,
            self.directories,
        )

    def as_tuple(self) -> tuple[object, ...]:
        """Return all fields, for comparisons."""
        return (
            self.replicas,
            self.isr,
            self.leader,
            self.leader_epoch,
            self.partition_epoch,
            self.adding,
            self.removing,
            self.original,
            self.elr,
            self.last_known_elr,
            self.recovery,
            self.directories,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partition) and self.as_tuple() == other.as_tuple()

    def __hash__(self) -> int:
        return hash(self.as_tuple())

    def __repr__(self) -> str:
        parts = (
            f"replicas={self.replicas}, isr={self.isr}, leader={self.leader}, leader_epoch={self.leader_epoch}, "
            f"partition_epoch={self.partition_epoch}, adding={self.adding}, removing={self.removing}, "
            f"original={self.original}, elr={self.elr}, last_known_elr={self.last_known_elr}, "
            f"recovery={self.recovery}"
        )
        return f"Partition({parts})"

    def apply(self, record: PartitionChangeRecord, pool: InternPool | None = None) -> Partition:
        """Return the partition after this record, which increments the partition epoch, and the leader epoch if it
        has a leader, even the same one. `pool`: interns the tuples of the result."""
        names_leader = record.leader != LEADER_UNCHANGED
        if pool is None:
            pool = InternPool()
        return Partition(
            self.replicas if record.replicas is None else pool.replicas(record.replicas),
            self.isr if record.isr is None else pool.replicas(record.isr),
            record.leader if names_leader else self.leader,
            self.leader_epoch + 1 if names_leader else self.leader_epoch,
            self.partition_epoch + 1,
            self.adding if record.adding_replicas is None else pool.replicas(record.adding_replicas),
            self.removing if record.removing_replicas is None else pool.replicas(record.removing_replicas),
            self.original if record.original_replicas is None else pool.replicas(record.original_replicas),
            self.elr
            if record.eligible_leader_replicas is None
            else pool.replicas(record.eligible_leader_replicas),
            self.last_known_elr if record.last_known_elr is None else pool.replicas(record.last_known_elr),
            self.recovery
            if record.leader_recovery_state == RECOVERY_UNCHANGED
            else record.leader_recovery_state,
            self.directories if record.directories is None else pool.directories(record.directories),
        )

    def check(self) -> None:
        """Raise MalformedMessage for a partition on which Kafka's readers halt."""
        if self.directories and len(self.directories) != len(self.replicas):
            raise MalformedMessage(
                f"a partition has {len(self.replicas)} replicas in {len(self.directories)} directories"
            )
        if self.recovery not in (RECOVERED, RECOVERING):
            raise MalformedMessage(
                f"a partition has the leader recovery state {self.recovery}, expected 0 or 1"
            )


def partition_from_record(record: PartitionRecord, pool: InternPool) -> Partition:
    """Convert a record to a partition."""
    return Partition(
        pool.replicas(record.replicas),
        pool.replicas(record.isr),
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        pool.replicas(record.adding_replicas),
        pool.replicas(record.removing_replicas),
        pool.replicas(record.original_replicas),
        pool.replicas(record.eligible_leader_replicas),
        pool.replicas(record.last_known_elr),
        record.leader_recovery_state,
        pool.directories(record.directories),
    )


def partition_record(tp: PartitionId, partition: Partition) -> PartitionRecord:
    """Convert a partition to a record."""
    record = PartitionRecord(
        tp.number,
        tp.topic_id,
        list(partition.replicas),
        list(partition.isr),
        list(partition.removing),
        list(partition.adding),
        partition.leader,
        partition.recovery,
        partition.leader_epoch,
        partition.partition_epoch,
        list(partition.directories),
    )
    record.eligible_leader_replicas = list(partition.elr) or None
    record.last_known_elr = list(partition.last_known_elr) or None
    record.original_replicas = list(partition.original) or None
    return record
