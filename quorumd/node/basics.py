"""The parts of a node that most of its other parts are built from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from quorumd.ids import ReplicaKey
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.identity.cluster_identity import ClusterIdentity
from quorumd.node.leader_role import LeaderRole
from quorumd.node.payers import CurrentPayer
from quorumd.node.settings import NodeSettings
from quorumd.node.statistics import NodeStatistics
from quorumd.ports import Clock
from quorumd.raft.engine import RaftEngine
from quorumd.raft.events import Event


@dataclass(frozen=True, slots=True)
class NodeBasics:
    """The parts that do not depend on the cluster."""

    settings: NodeSettings
    clock: Clock
    statistics: NodeStatistics
    paying: CurrentPayer = field(default_factory=CurrentPayer)


@dataclass(frozen=True, slots=True)
class QuorumParts:
    """The Raft engine with its log, and this node's part in the quorum."""

    own: ReplicaKey
    """The replica of this node."""
    engine: RaftEngine
    log: SegmentedLog
    identity: ClusterIdentity
    role: LeaderRole
    step: Callable[[Event], None]
    """Passes an event to the engine."""
