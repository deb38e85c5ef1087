"""Steps from the current to the target voters: one voter per record (KIP-595 draft, "Quorum reassignment"; Raft
thesis 4.1; holes 6 and 8).

Any two majorities of sets that differ in one voter overlap, so a step cannot lead to two leaders in one epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quorumd.ids import ZERO_UUID
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet


def next_assignment(
    latest: VoterAssignment, leader_id: int, ready: Mapping[int, Voter], active_voters: Mapping[int, int]
) -> VoterAssignment | None:
    """Return the next voter record; None if no reassignment is in progress, or if it has to wait.

    While there are at most as many voters as targets, a target that has caught up is added. While there are more, a
    voter that is not a target is removed: inactive voters first, then the furthest behind, the leader last. The
    number of voters never falls below the smaller of its initial and final values, except by one while a voter whose
    disk was replaced is removed and added again. A removal waits until the active voters are a majority of the rest.

    `ready`: caught-up replicas by node id; `active_voters`: log end offsets of the voters that fetch, the leader
    included.
    """
    target, current = latest.target, latest.current
    if target is None:
        return None
    missing = [node_id for node_id in target if current.by_id(node_id) is None]
    surplus = [voter for voter in current.voters if voter.key.id not in target]
    if missing and len(current.voters) <= len(target):
        found = [ready[node_id] for node_id in missing if node_id in ready]
        return assignment_toward(current.with_voter(found[0]), target) if found else None

    def removal_order(voter: Voter) -> tuple[bool, int, int]:
        node_id = voter.key.id
        return node_id == leader_id, active_voters.get(node_id, -1), -node_id

    if stale := stale_voters(current, target, ready, active_voters):
        remaining = current.without(stale[0].key.id)
    elif surplus:
        remaining = current.without(min(surplus, key=removal_order).key.id)
    else:
        return VoterAssignment(current)
    return assignment_toward(remaining, target) if remaining.is_majority(active_voters) else None


def stale_voters(
    current: VoterSet, target: Sequence[int], ready: Mapping[int, Voter], active_voters: Mapping[int, int]
) -> list[Voter]:
    """The voters whose disk was replaced: they are targets, and fetch with a directory id that the record lacks.

    Such a voter is removed first, since a set has at most one voter per node id; the new replica is added next.
    """
    return [
        voter
        for voter in current.voters
        if voter.key.id in target
        and voter.key.id not in active_voters
        and voter.key.id in ready
        and not voter.key.matches(ready[voter.key.id].key)
    ]


def assignment_toward(current: VoterSet, target: tuple[int, ...]) -> VoterAssignment:
    """`current` with the target `target`, or without a target if `current` has reached it."""
    return VoterAssignment(current, None if sorted(target) == sorted(current.ids) else target)


def count_changed_voters(before: VoterSet, after: VoterSet) -> int:
    """Count the voters that were added, removed or replaced.

    Filling in a missing directory id is not a change; another directory id is.
    """
    changed = sum(1 for voter in before.voters if after.by_id(voter.key.id) is None)
    for voter in after.voters:
        old = before.by_id(voter.key.id)
        if old is None or old.key.directory_id not in (ZERO_UUID, voter.key.directory_id):
            changed += 1
    return changed
