"""The controller inside a node: it decides while the node leads, and fences brokers that fell silent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from quorumd.controller.broker import Broker
from quorumd.controller.broker_lifecycle import elect_from, fence, is_fenced_by
from quorumd.controller.controller import Controller, ControllerSettings
from quorumd.controller.elections import SWEEP_RECORDS, UNCLEAN_SWEEP_MS, UncleanElection, unclean_sweep
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.alter_partition_order import AlterPartitionOrder
from quorumd.node.cluster_identity import ClusterIdentity
from quorumd.node.idle_log import IdleLog
from quorumd.node.leader_balancer import LeaderBalancer
from quorumd.node.metadata_writer import MetadataWriter
from quorumd.node.proposals import Proposals
from quorumd.node.state_machine import StateMachine
from quorumd.node.statistics import NodeStatistics
from quorumd.ports import Clock, Entropy, Timer

logger = logging.getLogger("quorumd.controller")

LOOKS_A_SESSION = 8
LONGEST_WAIT_MS = 500.0
"""Silent brokers are looked for so many times a session, and at least so often."""
NAMED_ELECTIONS = 10
"""Unclean elections of one batch that the log names."""


class ControllerRunner:
    """`controller` is for planning while the node may decide (`decides()`), `writer` for what is planned; `order`
    says which AlterPartition requests count."""

    def __init__(
        self,
        settings: ControllerSettings,
        clock: Clock,
        entropy: Entropy,
        identity: ClusterIdentity,
        log: SegmentedLog,
        state_machine: StateMachine,
        proposals: Proposals,
        statistics: NodeStatistics,
        decides: Callable[[], bool],
    ) -> None:
        self.controller = Controller(
            settings,
            lambda: identity.cluster_id,
            clock.now_ms,
            lambda: log.end_offset + proposals.waiting_records,
            entropy.uuid,
        )
        self.order = AlterPartitionOrder()
        self.writer = MetadataWriter(log.has_room, state_machine, proposals, self._elected_uncleanly)
        self._clock = clock
        self._state_machine = state_machine
        self._statistics = statistics
        self._decides = decides
        self._wait_ms = min(settings.broker_session_timeout_ms / LOOKS_A_SESSION, LONGEST_WAIT_MS)
        self._balancer = LeaderBalancer(self.controller, clock, self.writer, statistics, self.may_write)
        self._idle_log = IdleLog(settings.max_idle_interval_ms, clock, proposals, self.writer, self.may_write)
        self._looking: Timer | None = None
        self._sweeping: Timer | None = None

    def lead(self, next_session: int) -> None:
        """This node became leader. `next_session`: number of the next connection that is accepted."""
        self.order.begin(next_session)

    def activate(self) -> None:
        """The image is that of the whole log now. Every broker begins a whole session: nobody knows when the leader
        before this one heard of it."""
        controller = self.controller
        controller.image = self._state_machine.image
        unfenced = [broker for broker in controller.image.brokers.values() if not broker.is_fenced]
        controller.sessions.begin(unfenced, self._clock.now_ms())
        self._look_in(self._wait_ms)
        self._sweep_in(UNCLEAN_SWEEP_MS)
        self._balancer.begin()
        self._idle_log.begin()

    @property
    def is_active(self) -> bool:
        """Whether this node decides."""
        return self._decides()

    def may_write(self) -> bool:
        """Whether records can be written now: this node leads, and the log has room."""
        return self._decides() and self.writer.has_room()

    def lost_leadership(self) -> None:
        """Decide nothing more."""
        for timer in (self._looking, self._sweeping):
            if timer is not None:
                timer.cancel()
        self._balancer.stop()
        self._idle_log.stop()

    def _look_in(self, wait_ms: float) -> None:
        due = self._clock.now_ms() + wait_ms
        self._looking = self._clock.call_at(due, lambda: self._look_for_silent_brokers(due))

    def _sweep_in(self, wait_ms: float) -> None:
        self._sweeping = self._clock.call_at(self._clock.now_ms() + wait_ms, self._elect_uncleanly)

    def _look_for_silent_brokers(self, due: float) -> None:
        """Fence who was not heard of: one broker a turn, the one that is silent for longest first."""
        controller = self.controller
        now = self._clock.now_ms()
        if now - due > self._wait_ms:
            controller.sessions.stood_still(now - due)
        has_more = False
        if self.may_write():
            silent = self._silent(now)
            has_more = self._fence(silent[0]) or len(silent) > 1 if silent else self._settle()
        self._look_in(0.0 if has_more else self._wait_ms)

    def _silent(self, now: float) -> list[Broker]:
        brokers = self.controller.image.brokers
        found = [brokers.get(broker_id) for broker_id in self.controller.sessions.expired(now)]
        return [broker for broker in found if broker is not None and not broker.is_fenced]

    def _fence(self, broker: Broker) -> bool:
        """Returns whether it takes another step, in which it may be heard of after all."""
        records = fence(self.controller, broker, self.controller.step)
        self.writer.write_in_parts(records, _nobody_waits)
        if not is_fenced_by(records):
            return True
        logger.warning(
            "broker %d (epoch %d) was not heard of for %d ms and is fenced",
            broker.id,
            broker.epoch,
            self.controller.settings.broker_session_timeout_ms,
        )
        self._statistics.sessions_expired += 1
        return False

    def _settle(self) -> bool:
        """Let one broker that came lead what is left to it: where its unfencing, or the leader that planned that, did
        not get to the end. Returns whether there is more to do."""
        controller = self.controller
        brokers = controller.image.brokers
        coming = [
            (brokers[broker_id], session)
            for broker_id, session in controller.sessions.unsettled()
            if broker_id in brokers and not brokers[broker_id].is_fenced
        ]
        if not controller.image.index.leaderless:
            for _, session in coming:
                session.is_settled = True
            return False
        if not coming:
            return False
        broker, session = coming[0]
        records = elect_from(controller, broker, controller.step)
        session.is_settled = len(records) < controller.step
        if records:
            self.writer.write_in_parts(records, _nobody_waits)
        return len(coming) > 1 or not session.is_settled

    def _elected_uncleanly(self, elections: Sequence[UncleanElection]) -> None:
        """Tell operators what may have been lost: some partitions by name, however many there are."""
        for election in elections:
            if election.is_last_known:
                self._statistics.last_known_leader_elections += 1
            else:
                self._statistics.unclean_elections += 1
        for election in elections[:NAMED_ELECTIONS]:
            reason = (
                "it led last, and every eligible replica is lost"
                if election.is_last_known
                else "unclean.leader.election.enable allows it, or an administrator asked for it"
            )
            logger.warning(
                "broker %d was elected leader of %s-%d and may lack committed records: %s",
                election.leader,
                election.topic,
                election.number,
                reason,
            )
        if len(elections) > NAMED_ELECTIONS:
            logger.warning("the same of %d more partitions", len(elections) - NAMED_ELECTIONS)

    def _elect_uncleanly(self) -> None:
        records = unclean_sweep(self.controller) if self.may_write() else []
        if records:
            self.writer.write_in_parts(records, _nobody_waits)
        self._sweep_in(0.0 if len(records) >= SWEEP_RECORDS else UNCLEAN_SWEEP_MS)


def _nobody_waits(committed: bool) -> None:
    del committed
