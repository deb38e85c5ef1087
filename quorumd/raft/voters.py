"""Voter sets, majorities, and the history of voter sets in the log."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from quorumd.ids import ZERO_UUID, Endpoint, ReplicaKey

N = TypeVar("N", int, float)


def majority(voters: int) -> int:
    """The size of a majority of `voters` voters."""
    return voters // 2 + 1


def majority_value(values: Sequence[N]) -> N:
    """The largest value that a majority of voters has reached, given one value per voter and at least one voter.

    For log end offsets this is the high watermark (Raft paper 5.3), for times the last contact with a majority.
    """
    return sorted(values, reverse=True)[len(values) // 2]


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter: its replica key and listener endpoints (KIP-853)."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters at one point of the log, ordered by id. Empty before the first leader."""

    voters: tuple[Voter, ...] = ()

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(voter.key.id for voter in self.voters)

    def by_id(self, node_id: int) -> Voter | None:
        for voter in self.voters:
            if voter.key.id == node_id:
                return voter
        return None

    def with_voter(self, voter: Voter) -> VoterSet:
        """This set with `voter` added, or replacing the voter with the same id."""
        others = [other for other in self.voters if other.key.id != voter.key.id]
        return VoterSet(tuple(sorted([*others, voter], key=lambda each: each.key.id)))

    def without(self, node_id: int) -> VoterSet:
        """This set without the voter `node_id`."""
        return VoterSet(tuple(voter for voter in self.voters if voter.key.id != node_id))

    def includes(self, replica: ReplicaKey) -> bool:
        """Whether `replica` is one of the voters.

        A voter recorded without a directory id is matched by node id alone, any other also by directory id: a node
        whose disk was replaced is not that voter (KIP-853, hole 40).
        """
        voter = self.by_id(replica.id)
        return voter is not None and voter.key.directory_id in (ZERO_UUID, replica.directory_id)

    def is_majority(self, ids: Iterable[int]) -> bool:
        """Whether the distinct `ids` include a majority of the voters."""
        members = self.ids
        return sum(1 for node_id in ids if node_id in members) >= majority(len(members))


@dataclass(frozen=True, slots=True)
class VoterAssignment:
    """The draft's VoterAssignmentMessage: current voters and target ids (None: no reassignment in progress)."""

    current: VoterSet
    target: tuple[int, ...] | None = None


class VoterHistory:
    """Every VoterAssignment in the local log with its offset, oldest first.

    The newest takes effect when it is appended, committed or not (hole 5); truncating the log restores the previous
    one (hole 33).
    """

    __slots__ = ("_assignments", "_offsets")

    def __init__(self, entries: Iterable[tuple[int, VoterAssignment]] = ()) -> None:
        self._offsets: list[int] = []
        self._assignments: list[VoterAssignment] = []
        for offset, assignment in entries:
            self.append(offset, assignment)

    def __len__(self) -> int:
        return len(self._offsets)

    def __repr__(self) -> str:
        sets = (f"{o}: {a.current.ids}" for o, a in zip(self._offsets, self._assignments, strict=True))
        return f"VoterHistory({', '.join(sets)})"

    @property
    def latest(self) -> VoterAssignment | None:
        return self._assignments[-1] if self._assignments else None

    @property
    def latest_offset(self) -> int:
        """Offset of the newest voter record, -1 if there is none."""
        return self._offsets[-1] if self._offsets else -1

    def value_before(self, offset: int) -> VoterAssignment | None:
        """The newest VoterAssignment below `offset`, None if there is none."""
        count = bisect_left(self._offsets, offset)
        return self._assignments[count - 1] if count else None

    def offset_before(self, offset: int) -> int:
        """Offset of the newest VoterAssignment below `offset`, -1 if there is none."""
        count = bisect_left(self._offsets, offset)
        return self._offsets[count - 1] if count else -1

    def removal_offset(self, replica: ReplicaKey) -> int:
        """Offset of the newest record that added or removed a voter, if that record removed `replica`; else -1."""
        latest = self.latest
        if latest is None or latest.current.by_id(replica.id) is not None:
            return -1
        for position in range(len(self._offsets) - 1, 0, -1):
            before = self._assignments[position - 1].current
            if before.ids != latest.current.ids:
                return self._offsets[position] if before.includes(replica) else -1
        return -1

    def has_recorded(self, replica: ReplicaKey) -> bool:
        """Whether `replica` is or was a voter; a zero directory id on either side matches any."""
        voters = (assignment.current.by_id(replica.id) for assignment in reversed(self._assignments))
        return any(voter is not None and voter.key.matches(replica) for voter in voters)

    def append(self, offset: int, assignment: VoterAssignment) -> None:
        """Add a voter record. Raises ValueError for an offset at or below the newest one."""
        if offset <= self.latest_offset:
            raise ValueError(f"voter record at offset {offset} after one at {self.latest_offset}")
        self._offsets.append(offset)
        self._assignments.append(assignment)

    def truncate_to(self, end_offset: int) -> None:
        """Remove the records at or above `end_offset`."""
        keep = bisect_left(self._offsets, end_offset)
        del self._offsets[keep:]
        del self._assignments[keep:]
