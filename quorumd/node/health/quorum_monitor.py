"""Collects the status of a node in the quorum for operators and monitoring, and logs its changes."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.broker.controller_requests.lifecycle import BrokerState
from quorumd.node.basics import NodeBasics, QuorumParts
from quorumd.node.health.election_log import ElectionLog
from quorumd.node.health.follower_log import FollowerLog
from quorumd.node.health.voter_change_log import VoterChangeLog
from quorumd.node.identity.founding import Founding
from quorumd.node.lifecycle import Lifecycle
from quorumd.node.peers.client import PeerClient
from quorumd.node.readiness import NodeStatus
from quorumd.node.state.state_machine import StateMachine

CHECK_INTERVAL_MS = 1000.0


class QuorumMonitor:
    """Checks the node's status once per second, without side effects on the quorum.

    `broker_state()` returns the state of the broker in this process, None without the broker role.
    """

    def __init__(
        self,
        node: NodeBasics,
        quorum: QuorumParts,
        founding: Founding,
        state_machine: StateMachine,
        peers: PeerClient,
        lifecycle: Lifecycle,
        broker_state: Callable[[], BrokerState | None],
    ) -> None:
        self._settings = node.settings
        self._clock = node.clock
        self._election_latency_ms = node.statistics.election_latency_ms
        self._engine = quorum.engine
        self._state_machine = state_machine
        self._founding = founding
        self._peers = peers
        self._lifecycle = lifecycle
        self._broker_state = broker_state
        self._electing_since: float | None = None
        self._elections = ElectionLog()
        self._voter_changes = VoterChangeLog(quorum.engine)
        self._followers = FollowerLog(quorum.engine)

    def start(self) -> None:
        """Check now, and then once per second."""
        self.committed()
        self._check()

    @property
    def leaders_elected(self) -> int:
        """Number of leaders, one per epoch, that this node has known, itself included."""
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
            is_stopping=self._lifecycle.is_stopping,
            broker_state=self._broker_state(),
        )

    def leadership_changed(self) -> None:
        """Handle a change of role, epoch or leader."""
        engine, now = self._engine, self._clock.now_ms()
        self._followers.leadership_changed(now)
        if engine.leader_id >= 0:
            if self._electing_since is not None:
                self._election_latency_ms.observe(now - self._electing_since)
                self._electing_since = None
        elif self._electing_since is None and engine.role_name in ("candidate", "prospective"):
            self._electing_since = now
        self._elections.changed(engine.role_name, engine.epoch, engine.leader_id, now)

    def committed(self) -> None:
        """Handle a new high watermark."""
        self._voter_changes.committed()

    def _check(self) -> None:
        if self._lifecycle.is_stopping:
            return
        now, node_status = self._clock.now_ms(), self.node_status()
        self._elections.check(node_status, now)
        for peer in node_status.silent_peers:
            # Only this probe detects a peer that runs again but sends no requests to this node.
            self._peers.probe(peer.node_id)
        self._followers.check(now)
        self._clock.call_at(now + CHECK_INTERVAL_MS, self._check)
