"""What checkers are told, and how they complain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from quorumd.ids import ZERO_UUID, KafkaUuid, OffsetAndEpoch, ReplicaKey
from quorumd.simulator.inspection.log_mirror import Batch


class InvariantViolation(Exception):
    """A promise does not hold. The text says what was seen and what it contradicts."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
        self.text = text


LEADERSHIP = 1
"""Role, epoch, leader."""
LOG = 2
"""What is in the log, and with it the voters."""
HIGH_WATERMARK = 4
APPLIED = 8
FETCHES = 16
"""Of a leader: who fetched when, and how late it is. Time passes: it is looked at again and again."""
EVERYTHING = LEADERSHIP | LOG | HIGH_WATERMARK | APPLIED | FETCHES


@dataclass(slots=True)
class Observation:
    """One node right after an event. `life` counts its processes: a restarted node is another life.

    It is valid during the call that is given it: the next look at the node changes it.
    """

    node_id: int
    incarnation: int
    epoch: int
    leader_id: int = -1
    is_leader: bool = False
    high_watermark: int = -1
    """-1 while it is not known."""
    voters: tuple[ReplicaKey, ...] = ()
    previous_voters: tuple[ReplicaKey, ...] = ()
    """At the look before this one: what was committed meanwhile may have been counted with them."""
    log: Sequence[Batch] = ()
    """The whole log; the same list every time, changed in place."""
    removed: Sequence[Batch] = ()
    appended: Sequence[Batch] = ()
    """What was cut from and then added to the log since the last observation of this life."""
    applied_offset: int = -1
    image_hash: int | None = None
    """Of what everything below `applied_offset` adds up to; None while that cannot be told."""
    kept: frozenset[bytes] | None = None
    """Of the same, the frames of records that are kept for others."""
    role: str = ""
    """As `raft.roles.Role` names it."""
    now_ms: float = 0.0
    awake_since_ms: float = 0.0
    """Since when the process has had all the time it needs; inf while it is slow."""
    fetch_timeout_ms: float = 0.0
    last_fetches_ms_ago: Mapping[ReplicaKey, float] | None = None
    """What a leader knows of the other voters: how long ago each fetched, inf for not yet in this epoch. None while
    nobody has looked."""


class SavedVote(NamedTuple):
    """What a node's quorum-state file says: certain to be read again after a crash."""

    node_id: int
    epoch: int
    voted_id: int
    directory_id: KafkaUuid = ZERO_UUID
    """Of the data folder that the file is in."""

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)


class SavedVoters(NamedTuple):
    """The committed voters, as a node's quorum-state file has them."""

    node_id: int
    applied_offset: int
    """All voter records below it are reflected."""
    voters: tuple[int, ...]


class Directories:
    """Which data folder each node began with, and which one it has now."""

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
        """The replica that is meant by a voter. One without a directory id is the folder that its node began with:
        operators replace none before voter records name it."""
        return voter if voter.directory_id != ZERO_UUID else self.first(voter.id)


class Checker:
    """A promise; the methods are what can be seen of a cluster. By default nothing breaks it."""

    invariant = ""
    aspects = EVERYTHING
    """What of an Observation it reads: `observed` is called after every event that changed something of it."""

    def observed(self, seen: Observation) -> None:
        """A node after an event that changed what the checker looks at."""

    def saved(self, vote: SavedVote) -> None:
        """A quorum-state file has become durable."""

    def saved_voters(self, saved: SavedVoters) -> None:
        """The same, of its other half."""

    def checkpointed(self, node_id: int, high_watermark: int) -> None:
        """A checkpoint of the high watermark has become durable."""

    def snapshot_seen(self, node_id: int, snapshot: OffsetAndEpoch, data: bytes) -> None:
        """A node has this snapshot, whole."""

    def stopped(self, node_id: int, kept: Sequence[Batch]) -> None:
        """A node's process is gone; `kept` is the prefix of its log that its next life must find."""

    def moved(self, node_id: int, directory_id: KafkaUuid) -> None:
        """A node without a process has this data folder from now on, at first the one that it begins with. Another
        folder is another replica, which has promised nothing yet (KIP-853)."""

    def acknowledged(self, value: str) -> None:
        """A client was told that the write of this value is done."""

    def read(self, value: str) -> None:
        """A client was told that this value is there."""

    def violation(self, text: str) -> InvariantViolation:
        return InvariantViolation(self.invariant, text)
