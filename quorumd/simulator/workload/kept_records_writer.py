"""Lets leaders write opaque records, like stock controllers."""

from __future__ import annotations

from functools import partial
from random import Random

from quorumd.controller.registered_controllers import UNREGISTER_SINCE
from quorumd.protocol.messages.unregister_controller_record import UnregisterControllerRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import size_of_records
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.workload.kept_records import draw_kept_record


class KeptRecordsWriter:
    """Lets the leader write batches of up to `most_at_once` records at a mean interval of `interval_ms` until
    `running` is False."""

    def __init__(self, cluster: Cluster, random: Random, interval_ms: float, most_at_once: int) -> None:
        self.running = True
        self._cluster = cluster
        self._random = random
        self._interval_ms = interval_ms
        self._max_batch_records = most_at_once

    def start(self) -> None:
        if self.running:
            delay_ms = self._random.random() * 2 * self._interval_ms
            self._cluster.heap.call_later(delay_ms, self._next_step, b"kept records")

    def _next_step(self) -> None:
        for machine in self._cluster.running():
            # Run as the process: it may be busy, and the checkers observe it afterwards.
            write = partial(self._write, machine)
            self._cluster.heap.call_later(0.0, write, b"kept records", machine.process)
        self.start()

    def _write(self, machine: Machine) -> None:
        node = machine.node
        if not self.running or node is None or machine.exiting or machine.starting:
            return
        controller, image = node.controller, node.state_machine.image
        if not controller.may_write():
            return
        for _ in range(1 + self._random.randrange(self._max_batch_records)):
            frame = draw_kept_record(self._random, list(image.opaque_records.values()))
            if frame[1] == UnregisterControllerRecord.API_KEY and image.metadata_version < UNREGISTER_SINCE:
                continue
            controller.writer.propose([decode_record(frame)], [frame], size_of_records([frame]), _ignore)
        self._cluster.counters["batches of kept records"] += 1


def _ignore(committed: bool) -> None:
    """No client waits for the outcome."""
