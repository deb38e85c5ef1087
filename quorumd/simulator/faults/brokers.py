"""Faults of brokers: crashes, lost disks, pauses, and isolation from the quorum or each other."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Protocol

from quorumd.broker.replication.isr_proposal import IsrProposal
from quorumd.simulator.brokers.broker import Broker
from quorumd.simulator.brokers.cluster_view import ObservedBroker
from quorumd.simulator.brokers.fleet import BrokerFleet, Loss
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.faults.links import block_for, block_for_a_while

EXCESSIVE_LOSS = 0.05
"""Probability that a disk is lost that has the last copy of records. Records may be lost then, but no other invariant
may be violated."""

PATIENT = 1.3
"""Timeout of a leader's requests, in session timeouts, above which a delayed request may outlast a session."""


class RunningBrokerFault:
    """A fault of one running broker."""

    def available(self, cluster: Cluster) -> bool:
        return cluster.brokers is not None and bool(cluster.brokers.running())

    def inject(self, cluster: Cluster, random: Random) -> None:
        assert cluster.brokers is not None
        self.hurt(cluster.brokers, random, random.choice(cluster.brokers.running()))

    def hurt(self, brokers: BrokerFleet, random: Random, broker: Broker) -> None: ...


class BrokerCrash(RunningBrokerFault):
    """A SIGKILL, or a power loss that loses unflushed data; sometimes of all brokers at once."""

    name = "broker crash"

    def hurt(self, brokers: BrokerFleet, random: Random, broker: Broker) -> None:
        victims = brokers.running() if random.random() < 0.1 else [broker]
        loss = random.choice((Loss.NOTHING, Loss.UNFLUSHED))
        for victim in victims:
            tolerable = may_lose(brokers, victim.id) or random.random() < EXCESSIVE_LOSS
            brokers.crash(victim.id, loss if tolerable else Loss.NOTHING, random)


class BrokerDiskLoss(RunningBrokerFault):
    """A broker restarts with an empty disk, unless replication cannot tolerate that."""

    name = "broker disk loss"

    def hurt(self, brokers: BrokerFleet, random: Random, broker: Broker) -> None:
        tolerable = may_lose(brokers, broker.id) or random.random() < EXCESSIVE_LOSS
        brokers.crash(broker.id, Loss.EVERYTHING if tolerable else Loss.NOTHING, random)


class LostDirectory(RunningBrokerFault):
    """A log directory of a broker fails, unless it is its last one or replication cannot tolerate that."""

    name = "lost directory"

    def hurt(self, brokers: BrokerFleet, random: Random, broker: Broker) -> None:
        numbers = [
            number for number in range(len(broker.disk.directory_ids)) if number not in broker.disk.lost
        ]
        tolerable = may_lose(brokers, broker.id) or random.random() < EXCESSIVE_LOSS
        if len(numbers) > 1 and tolerable:
            brokers.lose_directory(broker.id, random.choice(numbers))


class BrokerShutdown(RunningBrokerFault):
    """A broker shuts down cleanly, without a controlled shutdown."""

    name = "broker shutdown"

    def hurt(self, brokers: BrokerFleet, random: Random, broker: Broker) -> None:
        brokers.stop(broker.id)


class ControlledShutdown(RunningBrokerFault):
    """A broker requests a controlled shutdown."""

    name = "controlled shutdown"

    def hurt(self, brokers: BrokerFleet, random: Random, broker: Broker) -> None:
        brokers.shut_down(broker.id)


class PausedBroker(RunningBrokerFault):
    """A broker pauses, often until it is fenced, and then continues."""

    name = "paused broker"

    def hurt(self, brokers: BrokerFleet, random: Random, broker: Broker) -> None:
        pause_ms = random.random() * random.choice((0.5, 2.0, 4.0)) * brokers.options.session_timeout_ms
        process = broker.process
        process.busy_until_ms = max(process.busy_until_ms, brokers.cluster.heap.now_ms + pause_ms)


class SlowBroker(RunningBrokerFault):
    """A broker with little processor time."""

    name = "slow broker"

    def hurt(self, brokers: BrokerFleet, random: Random, broker: Broker) -> None:
        broker.process.callback_ms = random.random() * random.choice((0.5, 2.0, 10.0))
        brokers.cluster.heap.call_later(
            random.random() * 4000.0, partial(self._as_before, broker.process), b"processor"
        )

    def _as_before(self, process: Process) -> None:
        process.callback_ms = 0.0


class IsolatedBroker(RunningBrokerFault):
    """A broker is isolated from the quorum or from the other brokers, possibly in one direction only."""

    name = "isolated broker"

    def hurt(self, brokers: BrokerFleet, random: Random, broker: Broker) -> None:
        own = brokers.machines[broker.id].host
        nodes = [machine.host for machine in brokers.cluster.machines.values()]
        others = [host for host in brokers.hosts() if host != own]
        far = random.choice((nodes, others, nodes + others))
        ways = [way for host in far for way in ((own, host), (host, own))]
        if random.random() < 0.3:
            ways = ways[random.randrange(2) :: 2]
        block_for_a_while(brokers.cluster, random, ways, 3.0 * brokers.options.session_timeout_ms)


class DelayedIsrChange:
    """Disturbs the next request that adds a replica to an ISR. Either the request is delayed while the replica is
    fenced, or loses its disk and restarts (races R25 and R1), or the response is lost while another member crashes
    (R26). Requests that timed out may still arrive."""

    name = "delayed ISR change"

    def available(self, cluster: Cluster) -> bool:
        return cluster.brokers is not None

    def inject(self, cluster: Cluster, random: Random) -> None:
        assert cluster.brokers is not None
        # If requests time out before a session expires, a leader's next request comes too early for the late faults.
        options = cluster.brokers.options
        is_patient = options.controller_timeout_ms > PATIENT * options.session_timeout_ms
        late = (self._joining_replica_is_fenced, self._joining_replica_restarts)
        disturb: ProposalFault = random.choice(
            (self._response_is_lost, *late) if is_patient else (self._response_is_lost,)
        )
        cluster.brokers.observation.on_proposal = partial(
            self._proposed_isr, cluster.brokers, random, disturb
        )

    def _proposed_isr(
        self,
        brokers: BrokerFleet,
        random: Random,
        disturb: ProposalFault,
        leader: ObservedBroker,
        proposal: IsrProposal,
    ) -> None:
        assert isinstance(leader, Broker)
        replica = leader.replicas[proposal.partition]
        joining_replicas = [member for member in proposal.members if member not in replica.isr]
        # With an ISR below the minimum nothing is committed, so nothing can be lost.
        is_committing = len(replica.isr) >= replica.min_isr
        if not joining_replicas or not is_committing or brokers.machines[joining_replicas[0]].broker is None:
            return
        brokers.observation.on_proposal = lambda broker, proposal: None
        brokers.counts[f"{self.name}: {disturb.__name__.strip('_').replace('_', ' ')}"] += 1
        disturb(brokers, random, leader, proposal, joining_replicas[0])

    def _joining_replica_is_fenced(
        self,
        brokers: BrokerFleet,
        random: Random,
        leader: Broker,
        proposal: IsrProposal,
        joining_replica: int,
    ) -> None:
        options = brokers.options
        # The replica is isolated until the leader's request has timed out, and the leader has retried and knows that
        # the replica is fenced. The first request arrives once the replica is unfenced, before the leader knows that.
        away_ms = max(1.1 * options.session_timeout_ms, options.controller_timeout_ms) + random.uniform(
            20.0, 200.0
        )
        delay_ms = away_ms + random.uniform(20.0, 1000.0)
        _delay_request(brokers, leader, delay_ms)
        own, other = brokers.machines[joining_replica].host, brokers.machines[leader.id].host
        nodes = [machine.host for machine in brokers.cluster.machines.values()]
        _block(brokers, [way for node in nodes for way in ((own, node), (node, own))], away_ms)
        isolate = partial(_block, brokers, [(own, other), (other, own)], delay_ms - away_ms + 500.0)
        brokers.cluster.heap.call_later(away_ms - 10.0, isolate, b"apart")

    def _joining_replica_restarts(
        self,
        brokers: BrokerFleet,
        random: Random,
        leader: Broker,
        proposal: IsrProposal,
        joining_replica: int,
    ) -> None:
        # The request arrives just before the leader's timeout: a retry would name an outdated incarnation.
        _delay_request(brokers, leader, 0.95 * brokers.options.controller_timeout_ms)
        loss = Loss.EVERYTHING if may_lose(brokers, joining_replica) else Loss.NOTHING
        brokers.crash(joining_replica, loss, random)
        brokers.boot(joining_replica)

    def _response_is_lost(
        self,
        brokers: BrokerFleet,
        random: Random,
        leader: Broker,
        proposal: IsrProposal,
        joining_replica: int,
    ) -> None:
        members = [member for member in proposal.members if member not in (leader.id, joining_replica)]
        if members:
            brokers.crash(random.choice(members), Loss.NOTHING, random)
        own = brokers.machines[leader.id].host
        nodes = [machine.host for machine in brokers.cluster.machines.values()]
        _block(
            brokers,
            [(node, own) for node in nodes],
            brokers.options.session_timeout_ms * random.uniform(0.5, 2.5),
        )


class ProposalFault(Protocol):
    """Disturbs a proposal that its leader is about to send, and the replica that is to join."""

    __name__: str

    def __call__(
        self,
        brokers: BrokerFleet,
        random: Random,
        leader: Broker,
        proposal: IsrProposal,
        joining_replica: int,
    ) -> None: ...


def _delay_request(brokers: BrokerFleet, broker: Broker, delay_ms: float) -> None:
    """Delay the broker's next request to the controller, on the existing connection or a new one."""
    link = broker.isr_channel.link
    for side in brokers.cluster.network.links:
        if side.connection is link:
            side.stream.delay_ms = delay_ms
    broker.isr_network.delay_ms = delay_ms
    brokers.cluster.heap.call_later(1.0, partial(setattr, broker.isr_network, "delay_ms", 0.0), b"as before")


def _block(brokers: BrokerFleet, ways: list[tuple[str, str]], duration_ms: float) -> None:
    block_for(brokers.cluster, ways, duration_ms)


def may_lose(brokers: BrokerFleet, broker_id: int) -> bool:
    """Whether this broker may lose its disk without breaking the guarantee of a partition with several copies."""
    view = brokers.observation.view
    for where, history in view.histories.items():
        row = view.row(where)
        if row is not None and broker_id in row.replicas and history.holds and history.least_min_isr > 1:
            lossy = {*history.lossy, broker_id}
            # Without ELR, the last members of an ISR stay eligible.
            if len(lossy) >= history.least_min_isr or (not view.image.elr_enabled and lossy >= set(row.isr)):
                return False
    return True
