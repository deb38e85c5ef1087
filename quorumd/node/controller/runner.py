"""Runs the periodic work of the active controller: fencing, unclean elections and removal of expired tokens."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from quorumd.controller.broker import Broker
from quorumd.controller.broker_lifecycle import completes_fencing, elect_broker, fence
from quorumd.controller.controller import Controller
from quorumd.controller.delegation_tokens import MAX_SWEPT, expired_tokens
from quorumd.controller.elections import (
    MAX_SWEEP_RECORDS,
    UncleanElection,
    elect_unclean_leaders,
)
from quorumd.node.basics import NodeBasics, QuorumParts
from quorumd.node.controller.alter_partition_order import AlterPartitionOrder
from quorumd.node.controller.leader_balancer import LeaderBalancer
from quorumd.node.controller.no_op_writer import NoOpWriter
from quorumd.node.state.metadata_writer import MetadataWriter
from quorumd.node.state.proposals import Proposals, ignore_commit
from quorumd.node.state.state_machine import StateMachine
from quorumd.ports import Entropy, Timer

logger = logging.getLogger("quorumd.controller")

SESSION_CHECKS_PER_TIMEOUT = 8
MAX_CHECK_INTERVAL_MS = 500.0
"""Sessions are checked SESSION_CHECKS_PER_TIMEOUT times per session timeout, and at least this often."""
MAX_LOGGED_ELECTIONS = 10
"""Unclean elections of one batch that are logged individually."""


class ControllerRunner:
    """Runs the active controller.

    `controller` plans changes, `writer` writes them, and `order` rejects AlterPartition requests on abandoned
    connections.
    """

    def __init__(
        self,
        node: NodeBasics,
        quorum: QuorumParts,
        state_machine: StateMachine,
        proposals: Proposals,
        entropy: Entropy,
    ) -> None:
        settings, clock, log = node.settings.controller, node.clock, quorum.log
        self.controller = Controller(
            settings,
            lambda: quorum.identity.cluster_id,
            clock.now_ms,
            lambda: log.end_offset + proposals.pending_records,
            entropy.uuid,
            clock.wall_ms,
        )
        if node.settings.registers:
            self.controller.other_voters = self._other_voters
        self.order = AlterPartitionOrder()
        self.writer = MetadataWriter(log.has_free_space, state_machine, proposals, self._on_unclean_elections)
        self._clock = clock
        self._quorum = quorum
        self._role = quorum.role
        self._state_machine = state_machine
        self._statistics = node.statistics
        self._check_interval_ms = min(
            settings.broker_session_timeout_ms / SESSION_CHECKS_PER_TIMEOUT, MAX_CHECK_INTERVAL_MS
        )
        self._balancer = LeaderBalancer(self.controller, clock, self.writer, node.statistics, self.can_write)
        self._no_op_writer = NoOpWriter(
            settings.max_idle_interval_ms, clock, proposals, self.writer, self.can_write
        )
        self._session_timer: Timer | None = None
        self._sweep_timer: Timer | None = None
        self._token_timer: Timer | None = None

    def _other_voters(self) -> list[int]:
        quorum = self._quorum
        return [voter for voter in quorum.engine.voters.current.ids if voter != quorum.own.id]

    def lead(self, next_session: int) -> None:
        """Begin a leadership. `next_session` is the number of the next connection that is accepted."""
        self.order.begin(next_session)

    def activate(self) -> None:
        """Become the active controller, now that the image holds the whole log.

        Every broker gets a full session timeout: when it last sent a heartbeat to the previous leader is unknown.
        """
        controller = self.controller
        controller.image = self._state_machine.image
        unfenced = [broker for broker in controller.image.brokers.values() if not broker.is_fenced]
        controller.sessions.begin(unfenced, self._clock.now_ms())
        self._schedule_session_check(self._check_interval_ms)
        self._schedule_sweep(controller.settings.unclean_election_interval_ms)
        self._schedule_token_sweep(controller.settings.token_check_interval_ms)
        self._balancer.begin()
        self._no_op_writer.begin()

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._role.is_active_controller

    def can_write(self) -> bool:
        """Whether records can be written now: this node is the active controller, and its disk has space."""
        return self._role.is_active_controller and self.writer.has_free_space()

    def on_leadership_lost(self) -> None:
        """Stop all periodic work."""
        for timer in (self._session_timer, self._sweep_timer, self._token_timer):
            if timer is not None:
                timer.cancel()
        self._balancer.stop()
        self._no_op_writer.stop()

    def _schedule_session_check(self, wait_ms: float) -> None:
        due = self._clock.now_ms() + wait_ms
        self._session_timer = self._clock.call_at(due, lambda: self._check_sessions(due))

    def _schedule_sweep(self, wait_ms: float) -> None:
        self._sweep_timer = self._clock.call_at(self._clock.now_ms() + wait_ms, self._sweep_unclean_elections)

    def _check_sessions(self, due: float) -> None:
        """Fence the broker whose session expired first; if none has, elect one unfenced broker where leaders are
        missing. Runs one step per iteration of the event loop."""
        controller = self.controller
        now = self._clock.now_ms()
        if now - due > self._check_interval_ms:
            controller.sessions.extend_all(now - due)
        has_more = False
        if self.can_write():
            expired = self._expired_brokers(now)
            has_more = self._fence(expired[0]) or len(expired) > 1 if expired else self._elect_pending()
        self._schedule_session_check(0.0 if has_more else self._check_interval_ms)

    def _expired_brokers(self, now: float) -> list[Broker]:
        brokers = self.controller.image.brokers
        found = [brokers.get(broker_id) for broker_id in self.controller.sessions.expired(now)]
        return [broker for broker in found if broker is not None and not broker.is_fenced]

    def _fence(self, broker: Broker) -> bool:
        """Write one step of fencing a broker. Returns whether another step is needed; a heartbeat may cancel it."""
        records = fence(self.controller, broker, self.controller.step)
        self.writer.write_batches(records, ignore_commit)
        if not completes_fencing(records):
            return True
        logger.warning(
            "fenced broker %d (epoch %d): no heartbeat for %d ms",
            broker.id,
            broker.epoch,
            self.controller.settings.broker_session_timeout_ms,
        )
        self._statistics.sessions_expired += 1
        return False

    def _elect_pending(self) -> bool:
        """Elect one unfenced broker for leaderless partitions if that was not completed when it was unfenced, for
        example because the controller changed. Returns whether there is more to do."""
        controller = self.controller
        brokers = controller.image.brokers
        pending = [
            (brokers[broker_id], session)
            for broker_id, session in controller.sessions.with_unchecked_elections()
            if broker_id in brokers and not brokers[broker_id].is_fenced
        ]
        if not controller.image.index.leaderless:
            for _, session in pending:
                session.elections_checked = True
            return False
        if not pending:
            return False
        broker, session = pending[0]
        records = elect_broker(controller, broker, controller.step)
        session.elections_checked = len(records) < controller.step
        if records:
            self.writer.write_batches(records, ignore_commit)
        return len(pending) > 1 or not session.elections_checked

    def _on_unclean_elections(self, elections: Sequence[UncleanElection]) -> None:
        """Count unclean elections and log them, at most MAX_LOGGED_ELECTIONS individually."""
        for election in elections:
            if election.is_last_known:
                self._statistics.last_known_leader_elections += 1
            else:
                self._statistics.unclean_elections += 1
        for election in elections[:MAX_LOGGED_ELECTIONS]:
            reason = (
                "it was the last known leader, and no eligible replica is left"
                if election.is_last_known
                else "unclean.leader.election.enable is set, or an administrator requested it"
            )
            logger.warning(
                "broker %d was elected leader of %s-%d and may lack committed records: %s",
                election.leader,
                election.topic,
                election.number,
                reason,
            )
        if len(elections) > MAX_LOGGED_ELECTIONS:
            logger.warning("%d more unclean elections are not listed", len(elections) - MAX_LOGGED_ELECTIONS)

    def _sweep_unclean_elections(self) -> None:
        records = elect_unclean_leaders(self.controller) if self.can_write() else []
        if records:
            self.writer.write_batches(records, ignore_commit)
        interval_ms = self.controller.settings.unclean_election_interval_ms
        self._schedule_sweep(0.0 if len(records) >= MAX_SWEEP_RECORDS else interval_ms)

    def _schedule_token_sweep(self, wait_ms: float) -> None:
        if self.controller.settings.token_secret_key:
            self._token_timer = self._clock.call_at(self._clock.now_ms() + wait_ms, self._sweep_tokens)

    def _sweep_tokens(self) -> None:
        """Remove expired delegation tokens, a limited number per iteration of the event loop."""
        records = expired_tokens(self.controller.image, self._clock.wall_ms()) if self.can_write() else []
        if records:
            self.writer.write_batches(records, ignore_commit)
        interval_ms = self.controller.settings.token_check_interval_ms
        self._schedule_token_sweep(0.0 if len(records) >= MAX_SWEPT else interval_ms)
