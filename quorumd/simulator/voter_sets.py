"""The voter sets that may be in effect, and whether enough replicas of each are left.

A replica is a log directory: the directory of a replaced disk no longer votes, and its successor on the same node is
another replica (KIP-853). Records are safe whatever is lost, since a majority of votes still overlaps each majority
that committed. Progress needs a majority of the directories of each voter set that a log may have, since an
uncommitted voter record takes effect, too.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from quorumd.ids import ZERO_UUID
from quorumd.raft.voters import Voter, VoterSet, majority

if TYPE_CHECKING:
    from quorumd.node.node import Node
    from quorumd.simulator.cluster import Cluster, Machine


def voter_sets_of(node: Node) -> tuple[VoterSet, ...]:
    """Return the voter sets of a node's log, from the newest that it knows to be committed."""
    engine = node.engine
    newest, committed = engine.voters.current, engine.voters_before(engine.high_watermark).current
    return tuple(voters for voters in (newest, committed) if voters.voters)


def voter_sets(cluster: Cluster) -> list[VoterSet]:
    """Return the voter sets of all logs, of running and stopped nodes, without duplicates."""
    found: dict[VoterSet, None] = {}
    for machine in cluster.machines.values():
        if machine.retired or machine.set_aside is not None:
            continue
        is_running = machine.node is not None and not machine.starting and not machine.exiting
        sets = (
            voter_sets_of(machine.node)
            if is_running and machine.node is not None
            else machine.last_voter_sets
        )
        found.update(dict.fromkeys(sets))
    return list(found)


def may_be_lost(cluster: Cluster, lost: Machine) -> bool:
    """Whether every voter set keeps a majority without the log directory of a machine, and every set with its node
    names its directory id, so that its next directory is another replica."""
    sets = voter_sets(cluster)
    for voters in sets:
        own = voters.by_id(lost.node_id)
        if own is not None and own.key.directory_id == ZERO_UUID:
            return False
        if (
            own is not None
            and own.key.directory_id == lost.directory_id
            and not _has_majority(cluster, voters, lost)
        ):
            return False
    return bool(sets)


def have_majorities(cluster: Cluster) -> bool:
    """Whether a majority of each voter set has its log directories."""
    return all(_has_majority(cluster, voters, None) for voters in voter_sets(cluster))


def have_majorities_among(cluster: Cluster, nodes: Collection[int]) -> bool:
    """Whether a majority of each voter set has its log directories on these nodes."""
    sets = voter_sets(cluster)
    for voters in sets:
        intact = [v for v in voters.voters if v.key.id in nodes and _is_intact(cluster, v, None)]
        if len(intact) < majority(len(voters.voters)):
            return False
    return bool(sets)


def _has_majority(cluster: Cluster, voters: VoterSet, lost: Machine | None) -> bool:
    intact = [voter for voter in voters.voters if _is_intact(cluster, voter, lost)]
    return len(intact) >= majority(len(voters.voters))


def _is_intact(cluster: Cluster, voter: Voter, lost: Machine | None) -> bool:
    machine = cluster.machines.get(voter.key.id)
    return (
        machine is not None
        and machine is not lost
        and not machine.retired
        and machine.set_aside is None
        and not machine.disk.is_corrupted
        and voter.key.directory_id in (ZERO_UUID, machine.directory_id)
    )
