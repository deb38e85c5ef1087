"""Who votes: voter sets, what a majority of them is, and their history along the log."""

from __future__ import annotations

from dataclasses import dataclass

from quorumd.ids import Endpoint, ReplicaKey


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter: which replica, and where its listeners are reached (KIP-853)."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters at one point of the log, ordered by id. Empty before the first leader."""

    voters: tuple[Voter, ...] = ()


@dataclass(frozen=True, slots=True)
class VoterAssignment:
    """The draft's VoterAssignmentMessage: who votes now, and who shall (null: no reassignment is running)."""

    current: VoterSet
    target: tuple[int, ...] | None = None
