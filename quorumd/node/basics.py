"""The parts of a node that do not depend on the cluster; most other parts are built from them."""

from __future__ import annotations

from dataclasses import dataclass

from quorumd.node.settings import NodeSettings
from quorumd.node.statistics import NodeStatistics
from quorumd.ports import Clock


@dataclass(frozen=True, slots=True)
class NodeBasics:
    """Settings, clock and counters of one node."""

    settings: NodeSettings
    clock: Clock
    statistics: NodeStatistics
