"""Faults of a round. A fault picks its victims, is injected, may have a delayed effect, and is healed."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from random import Random

from quorumd.errors import ExitCode
from tests.chaos.cluster import ChaosCluster, ChaosDaemon
from tests.chaos.links import State, Way
from tests.chaos.voters import Reassignment, draw_voters
from tests.support.processes.daemons import wait_for

LEADER_SHARE = 0.6
"""Probability that the leader is chosen for a fault of one node, where the fault has the largest effect."""
SECOND_SHARE = 0.35
"""Probability that a second fault is drawn for a round."""
WAIT_S = 3.0
DAY_MS = 86_400_000


class Anomaly(Exception):
    """A violated invariant."""


class Fault(ABC):
    """One fault of one round."""

    kind: str
    is_of_links = False
    """Whether the fault affects links only, so that it can be combined with any fault of nodes."""
    needs_all = False
    """Whether the fault affects all nodes, at once or one after the other."""

    def __init__(self, cluster: ChaosCluster, random: Random, unhurt: list[ChaosDaemon]) -> None:
        self.cluster = cluster
        self.random = random
        self.victims = [] if self.is_of_links else self.choose(unhurt)
        self.what = ", ".join(f"node {victim.node_id}" for victim in self.victims)
        self.pauses_s = 1.0
        """Minimum time before the round heals the fault."""

    def choose(self, unhurt: list[ChaosDaemon]) -> list[ChaosDaemon]:
        """Choose the victims."""
        return [self.one_of(unhurt)]

    def one_of(self, unhurt: list[ChaosDaemon]) -> ChaosDaemon:
        """Draw a node, with increased probability the leader."""
        leader = self.cluster.leading() if self.random.random() < LEADER_SHARE else None
        return leader if leader in unhurt and leader is not None else self.random.choice(unhurt)

    @abstractmethod
    def inject(self) -> None:
        """Inject the fault."""

    def is_felt(self) -> bool:
        """Return True if the fault has had an effect."""
        return True

    @abstractmethod
    def heal(self) -> None:
        """Heal the fault; afterwards the cluster must work again."""

    def is_settled(self) -> bool:
        """Return True if the effects of `heal` are complete."""
        return True


class LinkFault(Fault):
    """A fault of some directions of the network: between a pair of nodes, or of all links of one node."""

    is_of_links = True
    state: State
    one_way = False

    def __init__(self, cluster: ChaosCluster, random: Random, unhurt: list[ChaosDaemon]) -> None:
        super().__init__(cluster, random, unhurt)
        centre = self.one_of(list(cluster)).name
        others = [daemon.name for daemon in cluster if daemon.name != centre]
        scope = random.choice(["pair", "peers", "peers", "all"])
        if scope == "pair":
            others = [random.choice(others)]
        if scope == "all":
            others += sorted(party for party in cluster.links.parties() if party.startswith("client"))
        away, towards = [Way(centre, other) for other in others], [Way(other, centre) for other in others]
        arrow = random.choice(["->", "<-"]) if self.one_way or self.state is State.STALLED else "<->"
        if self.state is State.STALLED and random.random() < 0.5:
            arrow = "<->"
        self.ways = {"->": away, "<-": towards, "<->": away + towards}[arrow]
        self.delay_s = random.choice([0.03, 0.1, 0.3]) if self.state is State.SLOW else 0.0
        names = {"pair": f"node {others[0]}", "peers": "all other nodes", "all": "all parties"}
        self.what = f"node {centre} {arrow} {names[scope]}"
        self.pauses_s = random.uniform(1.0, 2.5)

    def inject(self) -> None:
        self.cluster.links.hurt(self.ways, self.state, self.delay_s)

    def heal(self) -> None:
        self.cluster.links.heal()


class Cut(LinkFault):
    kind, state = "cut link", State.CUT


class Stall(LinkFault):
    kind, state = "stalled link", State.STALLED


class Slow(LinkFault):
    kind, state = "slow link", State.SLOW


class Deaf(LinkFault):
    kind, state, one_way = "one-way drop", State.DEAF, True


class Kill(Fault):
    """Kill a node with SIGKILL, and restart it when the round heals."""

    kind = "kill -9"

    def __init__(self, cluster: ChaosCluster, random: Random, unhurt: list[ChaosDaemon]) -> None:
        super().__init__(cluster, random, unhurt)
        self.pauses_s = random.uniform(0.2, 1.8)

    def inject(self) -> None:
        for victim in self.victims:
            victim.kill()
            victim.gone()

    def heal(self) -> None:
        for victim in self.victims:
            victim.begin()


class KillAll(Kill):
    kind, needs_all = "kill -9 of all", True

    def choose(self, unhurt: list[ChaosDaemon]) -> list[ChaosDaemon]:
        return unhurt


class Freeze(Fault):
    """Stop a process with SIGSTOP, and continue it with SIGCONT when the round heals."""

    kind = "SIGSTOP"

    def __init__(self, cluster: ChaosCluster, random: Random, unhurt: list[ChaosDaemon]) -> None:
        super().__init__(cluster, random, unhurt)
        self.pauses_s = random.uniform(0.8, 2.5)

    def inject(self) -> None:
        self.victims[0].signal(signal.SIGSTOP)

    def heal(self) -> None:
        self.victims[0].signal(signal.SIGCONT)


class ClockOffset(Fault):
    """Restart a node with a wall clock that is up to 30 days off until the next restart."""

    kind = "clock offset"

    def inject(self) -> None:
        (victim,) = self.victims
        offset_ms = self.random.choice([-1, 1]) * self.random.choice([5_000, DAY_MS // 24, 30 * DAY_MS])
        self.what += f" by {offset_ms / 1000:+.0f} s"
        if self.random.random() < 0.5:
            victim.kill()
        else:
            stop_in_order(victim)
        victim.gone()
        victim.begin(clock_offset_ms=offset_ms)

    def heal(self) -> None:
        """Do nothing: the clock stays wrong until the next restart."""


class FullDisk(Fault):
    """Shrink the file system of one node to little more than its content; writes fill the rest."""

    kind = "full disk"

    def choose(self, unhurt: list[ChaosDaemon]) -> list[ChaosDaemon]:
        return [self.cluster.small]

    def inject(self) -> None:
        self.refusals_before = self._refusals()
        self.cluster.disk.take_room()
        self.pauses_s = self.random.uniform(1.5, 3.0)

    def is_felt(self) -> bool:
        return self._refusals() > self.refusals_before

    def heal(self) -> None:
        self.cluster.disk.give_room()

    def _refusals(self) -> int:
        return self.cluster.small.log_text().count("no space left on the disk")


class FailedFlush(Fault):
    """Restart a node whose flushes start to fail at a random flush; it must end at once with exit code 4."""

    kind = "failed flush"

    def inject(self) -> None:
        (victim,) = self.victims
        victim.kill()
        victim.gone()
        flushes = self.random.randint(1, 60)
        self.what += f" after {flushes}"
        victim.expected_exit = ExitCode.FLUSH_FAILED
        victim.begin(fail_flush_after=flushes)

    def is_felt(self) -> bool:
        return not self.victims[0].runs

    def heal(self) -> None:
        (victim,) = self.victims
        if victim.runs:
            victim.kill()  # a node that is also disconnected may have nothing to flush
        elif victim.wait() != ExitCode.FLUSH_FAILED:
            raise Anomaly(f"node {victim.node_id} ended with {victim.wait()} after a failed flush")
        victim.gone()
        victim.expected_exit = None
        victim.begin()


class RollingRestart(Fault):
    """Shut down and restart all nodes gracefully, one after the other."""

    kind, needs_all = "rolling restart", True

    def choose(self, unhurt: list[ChaosDaemon]) -> list[ChaosDaemon]:
        return self.random.sample(unhurt, len(unhurt))

    def inject(self) -> None:
        for victim in self.victims:
            stop_in_order(victim)
            victim.gone()
            victim.begin()
            # A fault of links may keep the node from finding the leader, so the wait is bounded.
            with suppress(AssertionError):
                wait_for(f"node {victim.node_id} to serve", victim.describe_quorum, WAIT_S)

    def heal(self) -> None:
        """Do nothing: all nodes have been restarted."""


class VoterChange(Fault):
    """Start a reassignment to some of the nodes; when the round heals, make all nodes voters."""

    kind = "voter change"

    def choose(self, unhurt: list[ChaosDaemon]) -> list[ChaosDaemon]:
        return []

    def inject(self) -> None:
        nodes = sorted(self.cluster.nodes)
        target = draw_voters(self.random, nodes, nodes)
        self.what = "to " + ", ".join(map(str, target))
        self.change = Reassignment(self.cluster.front_addresses, target)

    def heal(self) -> None:
        self.change.stop()
        self.change = Reassignment(self.cluster.front_addresses, sorted(self.cluster.nodes))

    def is_settled(self) -> bool:
        if self.change.is_reached:
            self.change.stop()
        return self.change.is_reached


def stop_in_order(victim: ChaosDaemon) -> None:
    """Send SIGTERM and expect exit code 0."""
    victim.signal(signal.SIGTERM)
    if (code := victim.wait(120)) != 0:
        raise Anomaly(f"node {victim.node_id} ended with {code} after SIGTERM")


KINDS: tuple[type[Fault], ...] = (
    *(Cut, Stall, Slow, Deaf, Kill, KillAll, Freeze, ClockOffset, FullDisk, FailedFlush, RollingRestart),
    VoterChange,
)


class Deck:
    """Draws the first fault of each round like a card: every kind is drawn once before any is drawn again."""

    def __init__(self, random: Random, kinds: Sequence[type[Fault]] = KINDS) -> None:
        self._random = random
        self._kinds = kinds
        self._cards: list[type[Fault]] = []

    def draw(self, cluster: ChaosCluster) -> list[Fault]:
        """Draw one fault, or two that can be combined."""
        first = self._next()(cluster, self._random, list(cluster))
        faults = [first]
        if self._random.random() < SECOND_SHARE:
            unhurt = [daemon for daemon in cluster if daemon not in first.victims]
            kinds = [
                kind for kind in self._kinds if _can_be_combined(type(first), kind, cluster.small in unhurt)
            ]
            if kinds:
                faults.append(self._random.choice(kinds)(cluster, self._random, unhurt))
        return faults

    def _next(self) -> type[Fault]:
        if not self._cards:
            self._cards = self._random.sample(self._kinds, len(self._kinds))
        return self._cards.pop()


def _can_be_combined(first: type[Fault], second: type[Fault], small_is_unhurt: bool) -> bool:
    if VoterChange in (first, second):
        return first is not second
    if first.is_of_links or second.is_of_links:
        return first.is_of_links != second.is_of_links
    if second is FullDisk and not small_is_unhurt:
        return False
    return not (first.needs_all or second.needs_all)
