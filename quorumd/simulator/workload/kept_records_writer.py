"""Lets leaders write kept records, like stock controllers."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final

from quorumd.controller.registered_controllers import UNREGISTER_SINCE
from quorumd.node.controller.runner import ControllerRunner
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.end_transaction_record import EndTransactionRecord
from quorumd.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from quorumd.protocol.messages.unregister_controller_record import UnregisterControllerRecord
from quorumd.protocol.metadata_record import decode_record, encode_record
from quorumd.protocol.record_batch import size_of_records
from quorumd.protocol.wire import Message
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.workload.kept_records import draw_kept_record

TRANSACTIONS: Final = 0.2
"""Share of batches that are transactions."""


class KeptRecordsWriter:
    """Lets the leader write batches of up to `max_batch_records` records at a mean interval of `interval_ms` until
    `running` is False."""

    def __init__(self, cluster: Cluster, random: Random, interval_ms: float, max_batch_records: int) -> None:
        self.running = True
        self._cluster = cluster
        self._random = random
        self._interval_ms = interval_ms
        self._max_batch_records = max_batch_records

    def start(self) -> None:
        if self.running:
            delay_ms = self._random.random() * 2 * self._interval_ms
            self._cluster.heap.call_later(delay_ms, self._next_step, b"kept records")

    def _next_step(self) -> None:
        for machine in self._cluster.running():
            # Run in the process, which may be busy, and which the checkers observe afterwards.
            write = partial(self._write, machine)
            self._cluster.heap.call_later(0.0, write, b"kept records", machine.process)
        self.start()

    def _write(self, machine: Machine) -> None:
        node = machine.node
        if not self.running or node is None or machine.exiting or machine.starting:
            return
        controller, image = node.controller, node.state_machine.image
        if not controller.can_write():
            return
        in_transaction = self._random.random() < TRANSACTIONS
        drawn: list[bytes] = []
        for _ in range(1 + self._random.randrange(self._max_batch_records)):
            frame = draw_kept_record(self._random, list(image.opaque_records.values()))
            if frame[1] == UnregisterControllerRecord.API_KEY and image.metadata_version < UNREGISTER_SINCE:
                continue
            drawn.append(frame)
            if not in_transaction:
                self._propose(controller, [frame])
        if in_transaction:
            for frames in self._transaction(drawn):
                self._propose(controller, frames)
        self._cluster.counters["batches of kept records"] += 1

    def _propose(self, controller: ControllerRunner, frames: list[bytes]) -> None:
        records = [decode_record(frame) for frame in frames]
        controller.writer.propose(records, frames, size_of_records(frames), _ignore)

    def _transaction(self, frames: list[bytes]) -> list[list[bytes]]:
        """Put these records into a committed or aborted transaction (KIP-868) of one or two batches. The image
        applies it only at its end, so the transaction must not remove the same resource twice."""
        random = self._random
        self._cluster.counters["transactions"] += 1
        kept = [frame for frame in frames if frame[1] != RemoveAccessControlEntryRecord.API_KEY]
        ends: tuple[Message, ...] = (
            EndTransactionRecord(),
            EndTransactionRecord(),
            AbortTransactionRecord("x"),
        )
        whole = [
            encode_record(BeginTransactionRecord("kept"), 0),
            *kept,
            encode_record(random.choice(ends), 0),
        ]
        cut = random.randrange(1, len(whole) + 1)
        return [part for part in (whole[:cut], whole[cut:]) if part]


def _ignore(committed: bool) -> None:
    """No client waits for the outcome."""
