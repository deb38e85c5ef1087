"""A state machine around an image, for what proposes records."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from quorumd.controller.cluster_image import ClusterImage
from quorumd.log import LogSettings
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.state.state_machine import StateMachine
from quorumd.simulator.environment.clock import SimulatedClock
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process


def state_machine_of(image: ClusterImage) -> StateMachine:
    heap = EventHeap()
    disk = SimulatedDisk(heap, Random(1))
    disk.make_directory("/log")
    log, _ = SegmentedLog.open(disk, "/log", LogSettings(allocate_bytes=0))
    turns: list[Callable[[], None]] = []
    machine = StateMachine(log, SimulatedClock(heap, Process("node")), turns.append, turns.append)
    machine.image = image
    return machine
