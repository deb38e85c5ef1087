"""Audits of histories from the simulator: no false alarm, and no planted fault is missed.

    python -m tests.simulation.audited_histories [--seeds 1000] [--first 0]        or `make audit-histories`

Each seed gives two histories: the directories of all nodes at a moment in the middle of the faults, with uncommitted
tails, snapshots under way and nodes that lost power; and at the end. They must be audited clean. Then one fault of
each kind is planted separately into the final history, and must be reported at its offset.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from quorumd.log.meta_properties import PARTITION_DIRECTORY
from quorumd.pipeline.audit.audit import AuditReport, audit_here
from quorumd.pipeline.audit.findings import Finding, Severity
from quorumd.simulator.profiles.draw import draw_options
from quorumd.simulator.simulation import Simulation
from tests.support.log import damaged_logs
from tests.support.log.log_files import Batch, batches

DATA_DIRECTORY = "/data/"
FAULTS: dict[str, tuple[Callable[[Path, int], Batch], set[str]]] = {
    "bit flip": (damaged_logs.flip_bit, {"BAD_CRC"}),
    "missing batch": (damaged_logs.drop_batch, {"GAP"}),
    "silent change": (damaged_logs.change_silently, {"DIVERGED"}),
    # At the end of a segment nothing is found behind it.
    "spoilt batch": (damaged_logs.spoil, {"BROKEN_CHAIN", "TORN_TAIL"}),
}

DAMAGING_FAULTS = ("damaged indexes",)
"""Faults of which the audit must find the traces, until the node starts again."""


@dataclass(slots=True)
class Tally:
    """The results of all seeds."""

    histories: int = 0
    copies: int = 0
    records: int = 0
    findings: Counter[str] = field(default_factory=Counter)
    """Findings by severity and code in unmodified histories."""
    false_alarms: list[str] = field(default_factory=list)
    planted: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)


def audit_seed(seed: int, tally: Tally) -> None:
    """Simulate one seed and audit its files."""
    options = draw_options(seed)
    sound = {fault: weight for fault, weight in options.faults.items() if fault not in DAMAGING_FAULTS}
    simulation = Simulation(seed, replace(options, faults=sound))
    halfway: dict[int, dict[str, bytes]] = {}
    moment_ms = Random(seed).uniform(0, options.safety_ms)
    simulation.call_at(moment_ms, lambda: halfway.update(simulation.stored_files()))
    report = simulation.run()
    assert report.ok, f"seed {seed}: {report.violations}"
    for moment, files in ((f"{moment_ms:.0f} ms", halfway), ("the end", simulation.stored_files())):
        with written(files) as directories:
            if directories:
                _audit(f"seed {seed} at {moment}", directories, tally)
            if directories and files is not halfway:
                _plant(f"seed {seed}", directories, Random(seed), tally)


@contextmanager
def written(files: Mapping[int, Mapping[str, bytes]]) -> Iterator[dict[int, Path]]:
    """Write the data directories of nodes with a log to disk."""
    with tempfile.TemporaryDirectory(prefix="quorumd-history-") as name:
        directories = {}
        for node, contents in files.items():
            for path, data in contents.items():
                target = Path(name, str(node), path.removeprefix(DATA_DIRECTORY))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
            if any(path.endswith(".log") for path in contents):
                directories[node] = Path(name, str(node))
        yield directories


def audited(directories: Mapping[int, Path]) -> AuditReport:
    return audit_here({node: str(directory) for node, directory in directories.items()})


def alarms(report: AuditReport) -> list[Finding]:
    return [finding for finding in report.findings if finding.severity > Severity.INFO]


def _audit(name: str, directories: Mapping[int, Path], tally: Tally) -> None:
    report = audited(directories)
    tally.histories += 1
    tally.copies += len(directories)
    tally.records += sum(copy.records for copy in report.copies.values())
    tally.findings.update(f"{finding.severity.name} {finding.code}" for finding in report.findings)
    tally.false_alarms += [f"{name}: {finding.row()}" for finding in alarms(report)]


def _plant(seed: str, directories: Mapping[int, Path], random: Random, tally: Tally) -> None:
    """Plant one fault of each kind into a copy that can be compared with another one."""
    places = list(_places(audited(directories), directories))
    if not places:
        return
    for kind, (damage, codes) in FAULTS.items():
        node, offset = random.choice(places)
        partition = directories[node] / PARTITION_DIRECTORY
        kept = partition.with_name("kept")
        shutil.copytree(partition, kept)
        batch = damage(directories[node], offset)
        found = [
            finding for finding in alarms(audited(directories)) if finding.offset_lo == batch.base_offset
        ]
        tally.planted[kind] += 1
        # If two copies differ, the audit cannot know which one is right.
        if not any(finding.code in codes and node in (finding.node, finding.peer) for finding in found):
            tally.missed.append(f"{seed}: {kind} on node {node} at offset {batch.base_offset}: {found}")
        shutil.rmtree(partition)
        kept.rename(partition)


def _places(report: AuditReport, directories: Mapping[int, Path]) -> Iterator[tuple[int, int]]:
    """Return nodes and base offsets of data batches, except the last one, that another copy also has."""
    # The independent reader, which says where batches lie, reads no damage.
    sound = [node for node, copy in report.copies.items() if copy.batches and not copy.damages]
    for node in sound:
        peers = [pair for (one, _), pair in report.pairs.items() if one == node and pair.two in sound]
        *but_last, _ = (b for segment in damaged_logs.segments(directories[node]) for b in batches(segment))
        for batch in but_last:
            in_both = any(p.start <= batch.base_offset and batch.end_offset <= p.parts_at for p in peers)
            if in_both and not batch.is_control:
                yield node, batch.base_offset


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.audited_histories")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    logging.disable()
    tally, began = Tally(), time.monotonic()
    for seed in range(given.first, given.first + given.seeds):
        before = len(tally.false_alarms), len(tally.missed)
        audit_seed(seed, tally)
        for line in (*tally.false_alarms[before[0] :], *tally.missed[before[1] :]):
            print(line, file=sys.stderr)
        if (seed - given.first) % 50 == 49:
            print(f"{seed - given.first + 1} seeds, {len(tally.false_alarms)} false alarms", file=sys.stderr)
    print(
        f"{tally.histories} histories of {given.seeds} seeds, {tally.copies} copies, {tally.records} records "
        f"in {time.monotonic() - began:.0f} s"
    )
    print("findings:", ", ".join(f"{count} {what}" for what, count in sorted(tally.findings.items())))
    print("planted and found:", ", ".join(f"{count} x {kind}" for kind, count in tally.planted.items()))
    for line in tally.false_alarms:
        print("FALSE ALARM", line)
    for line in tally.missed:
        print("MISSED", line)
    print(f"{len(tally.false_alarms)} false alarms, {len(tally.missed)} planted faults missed")
    return 1 if tally.false_alarms or tally.missed else 0


if __name__ == "__main__":
    sys.exit(main())
