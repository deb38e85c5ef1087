"""The base class of checkers, the observations that they receive, and the exception that they raise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from quorumd.ids import ZERO_UUID, KafkaUuid, OffsetAndEpoch, ReplicaKey
from quorumd.simulator.inspection.log_mirror import Batch


class InvariantViolation(Exception):
    """An invariant does not hold. The text names the observation and what it contradicts."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.text = text


LEADERSHIP = 1
"""Role, epoch, leader."""
LOG = 2
"""The content of the log, which includes the voters."""
HIGH_WATERMARK = 4
APPLIED = 8
FETCHES = 16
"""On a leader: the last fetch of each voter, and the time. Observed periodically, since silence causes no event."""
EVERYTHING = LEADERSHIP | LOG | HIGH_WATERMARK | APPLIED | FETCHES


@dataclass(slots=True)
class Observation:
    """The state of one node right after an event. `incarnation` increases with every restart.

    Valid only during the call that receives it: the next observation of the node overwrites it.
    """

    node_id: int
    incarnation: int
    epoch: int
    leader_id: int = -1
    is_leader: bool = False
    high_watermark: int = -1
    """-1 while unknown."""
    voters: tuple[ReplicaKey, ...] = ()
    previous_voters: tuple[ReplicaKey, ...] = ()
    """The voters at the previous observation; commits since then may have been counted with them."""
    log: Sequence[Batch] = ()
    """The whole log; always the same list, updated in place."""
    removed: Sequence[Batch] = ()
    appended: Sequence[Batch] = ()
    """The batches truncated from, then appended to the log since the last observation of this incarnation."""
    applied_offset: int = -1
    image_hash: int | None = None
    """Hash of the image at `applied_offset`; None while unknown."""
    opaque_records: frozenset[bytes] | None = None
    """The frames of the records that the image stores as written."""
    role: str = ""
    """A name from `raft.roles.Role`."""
    now_ms: float = 0.0
    awake_since_ms: float = 0.0
    """When the process last began to run at full speed; inf while it is slow."""
    fetch_timeout_ms: float = 0.0
    last_fetches_ms_ago: Mapping[ReplicaKey, float] | None = None
    """On a leader: milliseconds since each other voter last fetched, inf if not yet in this epoch. None if not
    observed."""


class SavedVote(NamedTuple):
    """The durable content of a node's quorum-state file, which survives a crash."""

    node_id: int
    epoch: int
    voted_id: int
    directory_id: KafkaUuid = ZERO_UUID
    """The directory id of the data directory that holds the file."""

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)


class SavedVoters(NamedTuple):
    """The committed voters in a node's quorum-state file."""

    node_id: int
    applied_offset: int
    """The voters reflect all voter records below this offset."""
    voters: tuple[int, ...]


class Directories:
    """The first and the current log directory of each node."""

    def __init__(self) -> None:
        self._first: dict[int, KafkaUuid] = {}
        self._current: dict[int, KafkaUuid] = {}

    def moved(self, node_id: int, directory_id: KafkaUuid) -> None:
        self._first.setdefault(node_id, directory_id)
        self._current[node_id] = directory_id

    def current(self, node_id: int) -> ReplicaKey:
        return ReplicaKey(node_id, self._current.get(node_id, ZERO_UUID))

    def first(self, node_id: int) -> ReplicaKey:
        return ReplicaKey(node_id, self._first.get(node_id, ZERO_UUID))

    def named(self, voter: ReplicaKey) -> ReplicaKey:
        """Return the replica that a voter denotes. A voter without a directory id denotes the first log directory of
        its node, since operators replace no directory before voter records name it."""
        return voter if voter.directory_id != ZERO_UUID else self.first(voter.id)


class Checker:
    """An invariant. Its methods receive the observations of a cluster; the defaults accept everything."""

    invariant = ""
    aspects = EVERYTHING
    """The aspects of an Observation that it reads: `observed` is called after every event that changes one."""

    def observed(self, seen: Observation) -> None:
        """Check a node after an event that changed one of `aspects`."""

    def saved(self, vote: SavedVote) -> None:
        """Record that a quorum-state file became durable."""

    def saved_voters(self, saved: SavedVoters) -> None:
        """Record that the voters in a quorum-state file became durable."""

    def checkpointed(self, node_id: int, high_watermark: int) -> None:
        """Record that a checkpoint of the high watermark became durable."""

    def snapshot_seen(self, node_id: int, snapshot: OffsetAndEpoch, data: bytes) -> None:
        """Check a complete snapshot of a node."""

    def stopped(self, node_id: int, recoverable: Sequence[Batch]) -> None:
        """Record that a node's process ended; its next incarnation must recover the log prefix `recoverable`."""

    def moved(self, node_id: int, directory_id: KafkaUuid) -> None:
        """Record the log directory of a stopped node: the first one, then every replacement. A new directory is a new
        replica, which earlier votes do not bind (KIP-853)."""

    def acknowledged(self, value: str) -> None:
        """Record that the write of this value was acknowledged to a client."""

    def read(self, value: str) -> None:
        """Record that a client read this value."""

    def violation(self, text: str) -> InvariantViolation:
        return InvariantViolation(self.invariant, text)
