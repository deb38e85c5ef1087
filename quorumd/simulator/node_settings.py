"""The settings of the parts of every simulated node."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from quorumd.controller.controller import ControllerSettings
from quorumd.log import LogSettings
from quorumd.node.settings import NodeSettings
from quorumd.raft.settings import RaftSettings
from quorumd.simulator.client_listener import with_client_listener
from quorumd.simulator.options import SimulationOptions

RESERVE_BYTES: Final = 4096
MAX_FETCH_WAIT_MS: Final = 500
MAX_INDEX_INTERVAL_BYTES: Final = 4096


MAX_UNSENT_BYTES: Final = 512 << 10
MAX_HELD_BYTES: Final = 2 << 20
"""Smaller limits of unread responses than in a daemon, in seeds with clients that do not read."""


def with_clients(settings: NodeSettings, options: SimulationOptions) -> NodeSettings:
    """Return settings with a listener for clients that log in, and small limits of unread responses if there are
    clients that do not read."""
    if options.unread_ms:
        settings = replace(settings, max_unsent_bytes=MAX_UNSENT_BYTES, max_held_bytes=MAX_HELD_BYTES)
    return with_client_listener(settings, options) if options.logins_ms else settings


def raft_settings(options: SimulationOptions) -> RaftSettings:
    """Return the settings of consensus. As in a daemon, a long poll never exceeds half of the fetch or request
    timeout."""
    return RaftSettings(
        fetch_timeout_ms=options.fetch_timeout_ms,
        election_timeout_ms=options.election_timeout_ms,
        election_backoff_max_ms=options.election_timeout_ms,
        fetch_max_wait_ms=min(MAX_FETCH_WAIT_MS, options.fetch_timeout_ms // 2, options.election_timeout_ms),
        snapshot_max_bytes=options.chunk_bytes,
        observer_session_ms=options.intervals.observer_session_ms,
    )


def log_settings(options: SimulationOptions) -> LogSettings:
    """Return the settings of the metadata log and its snapshots."""
    return LogSettings(
        segment_bytes=options.segment_bytes,
        index_interval_bytes=min(MAX_INDEX_INTERVAL_BYTES, options.segment_bytes // 8),
        allocate_bytes=options.allocate_bytes,
        reserve_bytes=RESERVE_BYTES,
        snapshot_bytes=options.snapshot_bytes,
        retention_bytes=options.retention_bytes,
        segment_ms=options.intervals.segment_ms,
        snapshot_ms=options.intervals.snapshot_ms,
        retention_ms=options.intervals.retention_ms,
    )


def controller_settings(options: SimulationOptions) -> ControllerSettings:
    """Return the settings of the controller."""
    return ControllerSettings(
        broker_session_timeout_ms=options.brokers.session_timeout_ms,
        max_partitions_per_step=options.brokers.max_partitions_per_step,
        leader_imbalance_check_interval_ms=options.brokers.balance_ms,
        unclean_election_interval_ms=options.intervals.unclean_election_ms,
        max_idle_interval_ms=options.idle_interval_ms,
        remote_storage=options.remote_storage,
        has_authorizer=bool(options.access_ms),
    )
