"""An operator who tests backups: recovers copies of the files of running nodes, most of them damaged, and reads them
with tools.

A copy must have all committed records and what else is undamaged, or be refused without a loss. The copies do not
affect the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final

from quorumd.errors import DirectoryInUse, StorageError
from quorumd.log.directory_lock import lock_directory
from quorumd.log.log_reader import read_log
from quorumd.log.segment import LOG_SUFFIX
from quorumd.log.snapshot_file import QUARANTINE_SUFFIX, SUFFIX, read_batches
from quorumd.node.recovered_data import RecoveredData, recover_data
from quorumd.node.snapshots.builder import build_snapshot
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.data_directories import DATA_DIRECTORY
from quorumd.simulator.faults.base import undisturbed
from quorumd.simulator.inspection.log_mirror import Batch, batches_in
from quorumd.simulator.workload.copied_disk import PARTITION, CopiedDisk, snapshot_path
from quorumd.simulator.workload.copy_damages import DAMAGES, Damage

INVARIANT: Final = "a copied directory is recovered, or refused without a loss"
LOCKED: Final = "only one process uses a log directory"
READ_BYTES: Final = 1 << 20
TOKEN: Final = "tool"


class RestoredCopies:
    """Recovers a copy at a mean interval of `interval_ms` until `running` is False."""

    def __init__(self, cluster: Cluster, random: Random, interval_ms: float) -> None:
        self.running = True
        self.counters: Counter[str] = Counter()
        self._cluster = cluster
        self._random = random
        self._interval_ms = interval_ms
        self._readers = cluster.streams.stream("readers of copies")

    def start(self) -> None:
        delay_ms = self._random.random() * 2 * self._interval_ms
        self._cluster.heap.call_later(delay_ms, self._next, b"copy")

    def _next(self) -> None:
        if not self.running:
            return
        self.start()
        found = _candidates(self._cluster)
        if found:
            machine = self._random.choice(found)
            require_lock(machine)
            self.recover(machine)

    def recover(self, machine: Machine, damage: Damage | None = None) -> None:
        """Recover a copy of the files of a machine with this damage, or any. Raises InvariantViolation."""
        copy = CopiedDisk(self._cluster, machine)
        damage = damage or self._random.choice(DAMAGES)
        damage(copy, self._random)
        what, expected, before = (
            f"node {machine.node_id}, {damage.__name__}",
            copy.recovered_end(),
            _files(copy),
        )
        self._read_damaged(what, copy)
        try:
            data = recover_data(copy.disk, copy.settings)
        except StorageError as error:
            if expected is not None:
                raise InvariantViolation(INVARIANT, f"{what}: refused: {error}") from error
            if lost := _lost(before, _files(copy)):
                raise InvariantViolation(INVARIANT, f"{what}: lost {lost}") from error
            self.counters["copies refused"] += 1
            return
        self.counters["copies recovered"] += 1
        if expected != data.log.end_offset:
            text = f"{what}: recovered to {data.log.end_offset}, expected {expected}"
            raise InvariantViolation(INVARIANT, f"{text}: {data.recovery_report}")
        self._compare(what, copy, data)
        self._read_with_tools(what, copy, data)
        data.log.close()
        again = recover_data(copy.disk, copy.settings)
        if again.recovery_report.truncations or again.log.end_offset != expected:
            raise InvariantViolation(INVARIANT, f"{what}: recovered again: {again.recovery_report}")
        again.log.close()

    def _read_damaged(self, what: str, copy: CopiedDisk) -> None:
        """Read the log of the copy before it is recovered: a reader gets batches of the node's log in order, and
        an error instead of damaged ones, or for an offset at which no batch begins."""
        random, batches = self._readers, copy.batches
        if not batches:
            return
        first = random.randrange(len(batches))
        start = batches[first].base_offset
        end = random.choice(batches[first:]).end_offset - random.randrange(2)
        inside = random.random() < 0.2 and batches[first].end_offset > start + 1
        found: list[bytes] = []
        try:
            for window, header in read_log(copy.disk, PARTITION, start + inside, end):
                found.append(window[header.position : header.position + header.size])
        except StorageError:
            self.counters["copies that a reader refuses"] += 1
        expected = [batch.data for batch in batches[first:] if batch.end_offset <= end]
        if found != expected[: len(found)] or (inside and found):
            raise InvariantViolation(INVARIANT, f"{what}: a reader of {start} to {end} gets damaged batches")

    def _compare(self, what: str, copy: CopiedDisk, data: RecoveredData) -> None:
        used = data.start_snapshot.snapshot
        if used is not None and used not in copy.snapshots:
            raise InvariantViolation(INVARIANT, f"{what}: the node starts with a damaged snapshot, {used}")
        log, found = data.log, list[Batch]()
        while piece := log.read(found[-1].end_offset if found else log.start_offset, READ_BYTES):
            found += batches_in(piece)
        expected = [batch for batch in copy.batches if log.start_offset < batch.end_offset <= log.end_offset]
        if found != expected:
            raise InvariantViolation(INVARIANT, f"{what}: the recovered log has other batches")

    def _read_with_tools(self, what: str, copy: CopiedDisk, data: RecoveredData) -> None:
        """Read the log like `quorumd log dump`, and build a snapshot like `quorumd snapshot`."""
        log, random = data.log, self._random
        batches = [batch for batch in copy.batches if log.start_offset < batch.end_offset <= log.end_offset]
        if batches:
            chosen = batches[random.randrange(len(batches)) :]
            start, end = chosen[0].base_offset, random.choice(chosen).end_offset
            hint = random.choice((None, log.seek_hint(start)))
            read = [
                window[header.position : header.position + header.size]
                for window, header in read_log(copy.disk, PARTITION, start, end, hint)
            ]
            if read != [batch.data for batch in chosen if batch.end_offset <= end]:
                raise InvariantViolation(
                    INVARIANT, f"{what}: a reader of {start} to {end} gets other batches"
                )
        self._require_failed_read(what, copy, log.end_offset)
        built = build_snapshot(copy.disk, DATA_DIRECTORY, log.end_offset, TOKEN)
        if built is None:
            return
        self.counters["snapshots of copies"] += 1
        path = snapshot_path(built.snapshot)
        content = [header.count for _, header in read_batches(copy.disk, path, built.snapshot)]
        same = [machine.disk.durable_file(path) for machine in self._cluster.machines.values()]
        others = [bytes(file.durable) for file in same if file is not None and not file.pending]
        if not content or any(other != copy.disk.contents()[path] for other in others):
            raise InvariantViolation(INVARIANT, f"{what}: {built.snapshot} differs from that of another node")

    def _require_failed_read(self, what: str, copy: CopiedDisk, end: int) -> None:
        """Require that a reader reports offsets that the log does not have."""
        try:
            batches: Sequence[object] = list(read_log(copy.disk, PARTITION, end, end + 1))
        except StorageError:
            return
        raise InvariantViolation(INVARIANT, f"{what}: a reader gets {batches} after the end")


def require_lock(machine: Machine) -> None:
    """Require that a tool cannot use the directory of a running node. Raises InvariantViolation."""
    try:
        lock_directory(machine.disk, DATA_DIRECTORY)
    except DirectoryInUse:
        return
    raise InvariantViolation(LOCKED, f"a tool has locked the directory of node {machine.node_id}")


def _candidates(cluster: Cluster) -> list[Machine]:
    """Return the running machines whose files are those that their nodes wrote, once their mirrors show them."""
    return [
        machine
        for machine in undisturbed(cluster)
        if machine.mirror.batches and not machine.has_copies and not machine.sync_failed
    ]


def _files(copy: CopiedDisk) -> dict[str, bytes]:
    """Return segments and snapshots by path, without preallocated zeros."""
    found = copy.disk.contents().items()
    endings = (LOG_SUFFIX, SUFFIX, QUARANTINE_SUFFIX)
    return {path: data.rstrip(b"\0") for path, data in found if path.endswith(endings)}


def _lost(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    """Return the files that have changed, except for snapshots that were renamed."""
    return [
        path
        for path, data in before.items()
        if data not in (after.get(path), after.get(path + QUARANTINE_SUFFIX))
    ]
