"""What goes wrong with brokers: they crash, lose disks, get no time, and do not reach the quorum or each other."""

from __future__ import annotations

from functools import partial
from random import Random

from quorumd.simulator.brokers.broker import Broker
from quorumd.simulator.brokers.population import Brokers, Loss
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.event_heap import Process
from quorumd.simulator.faults.links import block_for_a_while

BEYOND_ALL_BEARING = 0.05
"""So often more disks are lost at once than there are copies: then records may be lost, and nothing else breaks."""


class ToRunningBroker:
    """A fault of one broker that runs."""

    def available(self, cluster: Cluster) -> bool:
        return cluster.brokers is not None and bool(cluster.brokers.running())

    def inject(self, cluster: Cluster, random: Random) -> None:
        assert cluster.brokers is not None
        self.hurt(cluster.brokers, random, random.choice(cluster.brokers.running()))

    def hurt(self, brokers: Brokers, random: Random, broker: Broker) -> None: ...


class BrokerCrash(ToRunningBroker):
    """kill -9, or a power failure that takes what was not flushed; sometimes of all brokers at once."""

    name = "broker crash"

    def hurt(self, brokers: Brokers, random: Random, broker: Broker) -> None:
        victims = brokers.running() if random.random() < 0.1 else [broker]
        loss = random.choice((Loss.NOTHING, Loss.UNFLUSHED))
        for victim in victims:
            bearable = may_lose(brokers, victim.id) or random.random() < BEYOND_ALL_BEARING
            brokers.crash(victim.id, loss if bearable else Loss.NOTHING, random)


class LostDisk(ToRunningBroker):
    """A broker comes back with an empty disk, unless that is more than replication can bear."""

    name = "lost disk of a broker"

    def hurt(self, brokers: Brokers, random: Random, broker: Broker) -> None:
        bearable = may_lose(brokers, broker.id) or random.random() < BEYOND_ALL_BEARING
        brokers.crash(broker.id, Loss.EVERYTHING if bearable else Loss.NOTHING, random)


class BrokerShutdown(ToRunningBroker):
    """A broker ends in good order, and asks nobody."""

    name = "broker shutdown"

    def hurt(self, brokers: Brokers, random: Random, broker: Broker) -> None:
        brokers.stop(broker.id)


class ControlledShutdown(ToRunningBroker):
    """A broker asks the controller to be let go."""

    name = "controlled shutdown"

    def hurt(self, brokers: Brokers, random: Random, broker: Broker) -> None:
        brokers.shut_down(broker.id)


class PausedBroker(ToRunningBroker):
    """A broker stands still, often until it is fenced, and goes on as if nothing had been."""

    name = "paused broker"

    def hurt(self, brokers: Brokers, random: Random, broker: Broker) -> None:
        pause_ms = random.random() * random.choice((0.5, 2.0, 4.0)) * brokers.options.session_timeout_ms
        process = broker.process
        process.busy_until_ms = max(process.busy_until_ms, brokers.cluster.heap.now_ms + pause_ms)


class SlowBroker(ToRunningBroker):
    """A broker without its share of the processor."""

    name = "slow broker"

    def hurt(self, brokers: Brokers, random: Random, broker: Broker) -> None:
        broker.process.callback_ms = random.random() * random.choice((0.5, 2.0, 10.0))
        brokers.cluster.heap.call_later(
            random.random() * 4000.0, partial(self._as_before, broker.process), b"processor"
        )

    def _as_before(self, process: Process) -> None:
        process.callback_ms = 0.0


class CutOffBroker(ToRunningBroker):
    """A broker and the quorum do not reach each other, or a broker and the others; or in one direction only."""

    name = "cut-off broker"

    def hurt(self, brokers: Brokers, random: Random, broker: Broker) -> None:
        own = brokers.machines[broker.id].host
        nodes = [machine.host for machine in brokers.cluster.machines.values()]
        others = [host for host in brokers.hosts() if host != own]
        far = random.choice((nodes, others, nodes + others))
        ways = [way for host in far for way in ((own, host), (host, own))]
        if random.random() < 0.3:
            ways = ways[random.randrange(2) :: 2]
        block_for_a_while(brokers.cluster, random, ways, 3.0 * brokers.options.session_timeout_ms)


def may_lose(brokers: Brokers, broker_id: int) -> bool:
    """Whether the records of this broker's disk are elsewhere, where there are several copies of any at all."""
    scene = brokers.observation.scene
    for where, ledger in scene.ledgers.items():
        row = scene.row(where)
        if row is not None and broker_id in row.replicas and ledger.holds and ledger.least_min_isr > 1:
            lossy = {*ledger.lossy, broker_id}
            if len(lossy) >= ledger.least_min_isr:
                return False
    return True
