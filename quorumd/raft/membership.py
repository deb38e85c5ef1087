"""The next step from the voters of now to those that shall be: one voter a record (KIP-595 draft, "Quorum
reassignment"; Raft thesis 4.1; holes 6 and 8).

Pure: what a leader knows goes in, the next VoterAssignment comes out. A step that changes one voter keeps a majority
of the old and of the new set in touch, so no second leader can come of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quorumd.ids import ZERO_UUID
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet


def next_assignment(
    latest: VoterAssignment, leader_id: int, ready: Mapping[int, Voter], active_voters: Mapping[int, int]
) -> VoterAssignment | None:
    """The record that comes next; None if no reassignment runs, or it has to wait for a replica.

    While there are fewer or as many voters as targets, one that has caught up is added; while there are more, one
    that is no target is removed, who is out of touch or furthest behind first and the leader last. So there are
    never fewer voters than there were or than there shall be. `ready`: caught-up replicas by node id;
    `active_voters`: log end offsets of the voters that can commit something now, the leader among them.
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
        left = current.without(stale[0].key.id)
    elif surplus:
        left = current.without(min(surplus, key=removal_order).key.id)
    else:
        return VoterAssignment(current)
    return assignment_toward(left, target) if left.is_majority(active_voters) else None


def stale_voters(
    current: VoterSet, target: Sequence[int], ready: Mapping[int, Voter], active_voters: Mapping[int, int]
) -> list[Voter]:
    """The voters on disks that were replaced: the node is a target, and another folder of it fetches in place of the
    one that votes. That one leaves first, since a set has one voter of a node; the one that lives is added next."""
    return [
        voter
        for voter in current.voters
        if voter.key.id in target
        and voter.key.id not in active_voters
        and voter.key.id in ready
        and not voter.key.matches(ready[voter.key.id].key)
    ]


def assignment_toward(current: VoterSet, target: tuple[int, ...]) -> VoterAssignment:
    """`current` on its way to `target`; none is left to go once it is there."""
    return VoterAssignment(current, None if sorted(target) == sorted(current.ids) else target)


def count_changed_voters(before: VoterSet, after: VoterSet) -> int:
    """How many voters differ. One whose directory id became known is the same; another directory id is another."""
    changed = sum(1 for voter in before.voters if after.by_id(voter.key.id) is None)
    for voter in after.voters:
        old = before.by_id(voter.key.id)
        if old is None or old.key.directory_id not in (ZERO_UUID, voter.key.directory_id):
            changed += 1
    return changed
