"""Detects elections that depose a leader which a majority of the voters still follows."""

from __future__ import annotations

from dataclasses import dataclass

from quorumd.raft.roles import Role
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster, Machine


@dataclass(slots=True)
class Allegiance:
    """The state of a node, unchanged since `since_ms`."""

    incarnation: int
    role: Role
    epoch: int
    leader_id: int
    is_loyal: bool
    """Whether it leads, or follows a leader that has served a fetch within the fetch timeout, and so denies
    pre-votes."""
    since_ms: float


class ElectionProbe:
    """A replica campaigns for a new epoch only after a majority has granted it a pre-vote, which no leader does, and
    no follower of a live leader (KIP-996, Raft thesis 9.6). Reads nodes only, so it does not change a run.
    """

    invariant = "a leader that a majority follows is not challenged"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[int, Allegiance] = {}

    def look(self, machine: Machine) -> None:
        """Inspect a machine after one of its events. Raises InvariantViolation."""
        node = machine.node
        if node is None or machine.starting:
            return
        engine, now_ms = node.engine, self._cluster.heap.now_ms
        role, epoch, leader_id = engine.role, engine.epoch, engine.leader_id
        before = self._known.get(machine.node_id)
        if before is not None and before.incarnation != machine.incarnation:
            before = None
        own_ms = machine.time.offset_ms + now_ms * machine.time.rate
        is_loyal = role is Role.LEADER or engine.contact_ms(own_ms) < node.settings.raft.fetch_timeout_ms
        if (
            before is not None
            and before.role is role
            and before.epoch == epoch
            and before.leader_id == leader_id
            and before.is_loyal is is_loyal
        ):
            return
        self._known[machine.node_id] = Allegiance(
            machine.incarnation, role, epoch, leader_id, is_loyal, now_ms
        )
        if (
            before is not None
            and before.role is Role.PROSPECTIVE
            and role is Role.CANDIDATE
            and epoch == before.epoch + 1
        ):
            self._check(machine, before)

    def _check(self, candidate: Machine, before: Allegiance) -> None:
        """Check a candidate that has requested pre-votes since `before.since_ms`."""
        assert candidate.node is not None
        voters = candidate.node.engine.voters.current
        loyal = [
            voter.key.id
            for voter in voters.voters
            if voter.key.id != candidate.node_id and self._denied(voter.key.id, before)
        ]
        if loyal and not voters.is_majority([n for n in voters.ids if n not in loyal]):
            raise InvariantViolation(
                self.invariant,
                f"node {candidate.node_id} campaigns in epoch {before.epoch + 1}, but of the voters {voters.ids} "
                f"{loyal} lead epoch {before.epoch} or have followed its live leader for as long as it requested "
                "pre-votes",
            )

    def _denied(self, node_id: int, before: Allegiance) -> bool:
        machine, known = self._cluster.machines.get(node_id), self._known.get(node_id)
        if machine is None or known is None or machine.process is None:
            return False
        # A node that was paused may process a request before the timer that was due earlier.
        is_awake = not machine.process.callback_ms and machine.process.busy_until_ms <= before.since_ms
        return (
            is_awake
            and known.is_loyal
            and known.incarnation == machine.incarnation
            and known.epoch == before.epoch
            and known.since_ms <= before.since_ms
        )
