"""Collects the status of a node in the quorum for operators and monitoring, and logs its changes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf

from quorumd.broker.controller_requests.lifecycle import BrokerState
from quorumd.ids import ReplicaKey
from quorumd.node.graceful_shutdown import GracefulShutdown
from quorumd.node.health.election_log import ElectionLog
from quorumd.node.identity.founding import Founding
from quorumd.node.peers.client import PeerClient
from quorumd.node.readiness import NodeStatus, format_duration
from quorumd.node.settings import NodeSettings
from quorumd.node.state.state_machine import StateMachine
from quorumd.node.statistics import NodeStatistics
from quorumd.ports import Clock
from quorumd.raft.effects import RequestRefused
from quorumd.raft.engine import RaftEngine
from quorumd.raft.voters import VoterAssignment, VoterSet

logger = logging.getLogger("quorumd.node")

CHECK_INTERVAL_MS = 1000.0
REFUSAL_LOG_INTERVAL_MS = 10_000.0
"""Minimum time between two warnings about the same refusal of a vote."""
MAX_LOGGED_REFUSALS = 100
"""Different refusals logged per interval; an unknown client can invent any number of node ids."""


class QuorumMonitor:
    """Checks the node's status once per second, without side effects on the quorum."""

    def __init__(
        self,
        settings: NodeSettings,
        clock: Clock,
        own: ReplicaKey,
        founding: Founding,
        engine: RaftEngine,
        state_machine: StateMachine,
        peers: PeerClient,
        shutdown: GracefulShutdown,
        statistics: NodeStatistics,
    ) -> None:
        self.own = own
        self._settings = settings
        self._clock = clock
        self._engine = engine
        self._state_machine = state_machine
        self._founding = founding
        self._peers = peers
        self._shutdown = shutdown
        self._statistics = statistics
        self.broker_state: Callable[[], BrokerState | None] = lambda: None
        """The state of the broker in this process, None without that role."""
        self._electing_since: float | None = None
        self._elections = ElectionLog()
        self._voters: VoterSet | None = None
        """The voters of the newest committed voter record that was logged."""
        self._committed_assignment: VoterAssignment | None = None
        """The newest voter record, once it is committed and logged."""
        self._leadership: tuple[int, float] = (-1, 0.0)
        """The epoch that this node leads, and the time of its election."""
        self._lagging_followers: dict[int, float] = {}
        """On a leader: node id -> time of its last fetch, or of the election if that is later."""
        self._refusals: dict[tuple[str, int, str], float] = {}

    def start(self) -> None:
        """Check now, and then once per second."""
        self.committed()
        self._check()

    @property
    def leaders_elected(self) -> int:
        """Number of leaders of an epoch that this node has known, itself included."""
        return self._elections.leaders

    def node_status(self) -> NodeStatus:
        """Return the current status. Called on the event thread only."""
        settings, engine, now = self._settings, self._engine, self._clock.now_ms()
        configured = settings.bootstrap_voters
        machine = self._state_machine
        return NodeStatus(
            node_id=settings.node_id,
            role=engine.role_name,
            epoch=engine.epoch,
            leader_id=engine.leader_id,
            contact_ms=engine.contact_ms(now),
            contact_limit_ms=engine.contact_limit_ms,
            high_watermark=engine.leader_high_watermark,
            applied_offset=machine.applied_offset,
            max_lag=settings.ready_max_lag,
            is_voter=engine.is_voter,
            is_configured_voter=settings.node_id in configured,
            is_joining=settings.auto_join and not engine.is_voter,
            loaded_records=machine.loading.records if machine.loading is not None else -1,
            replay_end=machine.replay_end if machine.is_replaying else 0,
            founding_obstacle=self._founding.obstacle(now),
            silent_peers=self._peers.contacts.silent(engine.voters.current.ids or configured, now),
            is_stopping=self._shutdown.is_stopping,
            broker_state=self.broker_state(),
        )

    def leadership_changed(self) -> None:
        """Handle a change of role, epoch or leader."""
        engine, now = self._engine, self._clock.now_ms()
        if engine.is_leader:
            self._leadership = (engine.epoch, now)
            self._lagging_followers.clear()
        if engine.leader_id >= 0:
            if self._electing_since is not None:
                self._statistics.election_latency_ms.observe(now - self._electing_since)
                self._electing_since = None
        elif self._electing_since is None and engine.role_name in ("candidate", "prospective"):
            self._electing_since = now
        self._elections.changed(engine.role_name, engine.epoch, engine.leader_id, now)

    def committed(self) -> None:
        """Log the voters that a newly committed voter record added and removed."""
        engine, latest = self._engine, self._engine.voters
        if latest is self._committed_assignment:
            return
        high_watermark, before = engine.high_watermark, self._voters
        assignment = engine.voters_before(high_watermark)
        if assignment is latest:
            self._committed_assignment = latest
        if assignment.current == before or not assignment.current.ids:
            return
        self._voters = assignment.current
        if before is None:
            return
        offset = engine.voters_offset_before(high_watermark)
        changes = [
            f"node {voter.key.id} (directory id {voter.key.directory_id}) {verb}"
            for verb, voters, others in (("added", self._voters, before), ("removed", before, self._voters))
            for voter in voters.voters
            if not any(voter.key.matches(other.key) for other in others.voters)
        ]
        if changes:
            ids = ", ".join(map(str, self._voters.ids))
            logger.info("voters are %s: %s by the record at offset %d", ids, " and ".join(changes), offset)

    def refused(self, refused: RequestRefused) -> None:
        """Log a refused request of a candidate or leader: as a warning once per interval, else at debug level."""
        logger.log(
            logging.WARNING if self._is_first_refusal(refused) else logging.DEBUG,
            "refused the %s of node %d at %s in epoch %d, own epoch %d: %s",
            refused.kind,
            refused.sender,
            refused.peer,
            refused.epoch,
            self._engine.epoch,
            refused.reason,
        )

    def _is_first_refusal(self, refused: RequestRefused) -> bool:
        """Whether no such refusal was logged as a warning within the interval."""
        now, key = self._clock.now_ms(), (refused.kind, refused.sender, refused.reason)
        if now - self._refusals.get(key, -inf) < REFUSAL_LOG_INTERVAL_MS:
            return False
        if len(self._refusals) >= MAX_LOGGED_REFUSALS:
            self._refusals = {k: at for k, at in self._refusals.items() if now - at < REFUSAL_LOG_INTERVAL_MS}
            if len(self._refusals) >= MAX_LOGGED_REFUSALS:
                return False
        self._refusals[key] = now
        return True

    def _check(self) -> None:
        if self._shutdown.is_stopping:
            return
        now, node_status = self._clock.now_ms(), self.node_status()
        self._elections.check(node_status, now)
        for peer in node_status.silent_peers:
            # A peer that is back but has no request for this node is detected by this probe only.
            self._peers.probe(peer.node_id)
        self._check_followers(now)
        self._clock.call_at(now + CHECK_INTERVAL_MS, self._check)

    def _check_followers(self, now: float) -> None:
        """As leader, log the voters that stop fetching, and those that fetch again."""
        engine = self._engine
        if not engine.is_leader:
            return
        limit_ms, end_offset = engine.contact_limit_ms, engine.high_watermark
        for voter in engine.describe(now).voters:
            node_id, age_ms = voter.key.id, voter.last_fetch_ms_ago
            age_ms = min(age_ms, now - self._leadership[1])
            if age_ms > limit_ms and node_id not in self._lagging_followers:
                self._lagging_followers[node_id] = now - age_ms
                behind = max(0, end_offset - max(0, voter.log_end_offset))
                logger.warning(
                    "follower %d has not fetched for %s; it lacks %d records",
                    node_id,
                    format_duration(age_ms),
                    behind,
                )
            elif age_ms <= limit_ms and node_id in self._lagging_followers:
                since = self._lagging_followers.pop(node_id)
                logger.info("follower %d fetches again after %s", node_id, format_duration(now - since))
