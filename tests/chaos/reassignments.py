"""`make chaos-reassign`: in every round other nodes become the voters while processes are killed and clients write.

A round ends when exactly the target nodes are voters and all nodes have caught up.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from tests.chaos.client import now_ms
from tests.chaos.cluster import ChaosCluster, ChaosDaemon
from tests.chaos.faults import LEADER_SHARE, Anomaly, Kill, VoterChange
from tests.chaos.machine import Patience
from tests.chaos.rounds import Chaos, Round
from tests.chaos.voters import Reassignment, draw_voters

KILLS = {0: 1, 1: 4, 2: 3, 3: 2}
"""Weights of the numbers of killed processes per round."""
BEFORE_S = 0.3
"""The earliest time of a kill, before the request for other voters."""
AFTER_S = 0.6
"""The latest time of a kill, after the request; the kills end early when the voters have changed."""
DOWN_S = (0.1, 1.5)
MOST_DOWN = 2
LATE_S = 20.0
REASSIGNED_S = 60.0


class Reassignments(Chaos):
    """Rounds that change the voters."""

    def _round(self, number: int) -> Round:
        cluster = self._cluster
        before = tuple(sorted(cluster.leader_quorum().voters))
        target = draw_voters(self._random, sorted(cluster.nodes), before)
        begun = Round(number, [VoterChange.kind], [f"{joined(before)} to {joined(target)}"], self._now())
        self.rounds.append(begun)
        killer = Killer(cluster, self._random)
        self._kill_for(killer, BEFORE_S)
        reassignment = Reassignment(cluster.front_addresses, target)
        try:
            self._wait_until_reached(reassignment, killer)
        finally:
            reassignment.stop()
        killer.heal()
        begun.reassigned_ms, begun.kills = reassignment.took_ms, len(killer.killed)
        begun.retries = reassignment.errors
        if killer.killed:
            begun.kinds.append(Kill.kind)
            begun.what.append(f"node {joined(killer.killed)}")
        # A deposed leader may have confirmed the change to the operator: the current leader must confirm it too.
        self._see_it_work(begun, lambda: set(cluster.leader_quorum().voters) == set(target))
        return begun

    def _kill_for(self, killer: Killer, seconds: float) -> None:
        until_ms = now_ms() + seconds * 1000
        while now_ms() < until_ms:
            killer.advance()
            self._pause(0.01)

    def _wait_until_reached(self, reassignment: Reassignment, killer: Killer) -> None:
        patience = Patience(REASSIGNED_S, self._machine)
        reported_at_ms = reassignment.requested_ms
        while not reassignment.is_reached:
            killer.advance()
            self._pause(0.02)
            if now_ms() - reported_at_ms > LATE_S * 1000:
                reported_at_ms = now_ms()
                self._show(f"      late: {reassignment.last_seen}")
            if patience.is_over:
                killer.heal()
                self._look_for_dead()
                raise Anomaly(
                    f"the voters {joined(reassignment.target)} were not reached within {REASSIGNED_S:.0f} s in which "
                    f"the machine worked; last described by {reassignment.last_seen}; errors: {reassignment.errors}"
                )


class Killer:
    """Kills some processes at random times and restarts them shortly afterwards; `advance` is called often."""

    def __init__(self, cluster: ChaosCluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        (count,) = random.choices(list(KILLS), list(KILLS.values()))
        began_ms = now_ms()
        self._kills_ms = sorted(began_ms + random.uniform(0, BEFORE_S + AFTER_S) * 1000 for _ in range(count))
        self._starts_ms: dict[ChaosDaemon, float] = {}
        self.killed: list[int] = []
        """Ids of killed nodes, in chronological order."""

    def advance(self) -> None:
        """Kill and restart the processes that are due."""
        now = now_ms()
        for daemon in [daemon for daemon, due in self._starts_ms.items() if due <= now]:
            self._start(daemon)
        if self._kills_ms and self._kills_ms[0] <= now and len(self._starts_ms) < MOST_DOWN:
            self._kills_ms.pop(0)
            self._kill()

    def heal(self) -> None:
        """Kill no more processes, and restart all that are down."""
        self._kills_ms.clear()
        for daemon in list(self._starts_ms):
            self._start(daemon)

    def _kill(self) -> None:
        """Kill a running node, with increased probability the leader."""
        running = [daemon for daemon in self._cluster if daemon not in self._starts_ms]
        if self._random.random() < LEADER_SHARE:
            running = [
                each for each in running if (seen := each.describe_quorum()) and seen.leader == each.node_id
            ] or running
        victim = self._random.choice(running)
        victim.kill()
        victim.gone()
        self.killed.append(victim.node_id)
        self._starts_ms[victim] = now_ms() + self._random.uniform(*DOWN_S) * 1000

    def _start(self, daemon: ChaosDaemon) -> None:
        del self._starts_ms[daemon]
        daemon.begin()


def joined(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, nodes))
