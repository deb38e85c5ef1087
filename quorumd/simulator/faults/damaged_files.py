"""Damage to the small files of a log directory, lost segments, and logs that contradict themselves: a node must
refuse to start, and change nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from quorumd.log.bootstrap_file import encode_bootstrap
from quorumd.log.epoch_cache import FILE_NAME as EPOCH_FILE
from quorumd.log.high_watermark_checkpoint import FILE_NAME as CHECKPOINT
from quorumd.log.meta_properties import BOOTSTRAP_FILE, partition_directory
from quorumd.log.meta_properties import FILE_NAME as META_PROPERTIES
from quorumd.log.quorum_state_file import FILE_NAME as QUORUM_STATE
from quorumd.log.segment import LOG_SUFFIX
from quorumd.log.snapshot_file import QUARANTINE_SUFFIX, SUFFIX
from quorumd.node.identity.identity_files import BOOT_TIMESTAMP_FILE
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.data_directories import DATA_DIRECTORY, expect_refusal
from quorumd.simulator.faults.base import undisturbed
from quorumd.simulator.faults.contradictions import draw_contradiction, end_offset, segment_name

PARTITION = partition_directory(DATA_DIRECTORY)
META_PATH: Final = f"{DATA_DIRECTORY}/{META_PROPERTIES}"
STATE_PATH: Final = f"{PARTITION}/{QUORUM_STATE}"
BOOTSTRAP_PATH: Final = f"{DATA_DIRECTORY}/{BOOTSTRAP_FILE}"
CHECKPOINT_PATH: Final = f"{DATA_DIRECTORY}/{CHECKPOINT}"
HUGE: Final = b"#" * (65 * 1024)
HUGE_OFFSET: Final = 9 * 10**18
LOG_FILES: Final = (LOG_SUFFIX, ".index", ".timeindex", SUFFIX)
LONG: Final = "x" * 33_000
META_LINES: Final = {
    "version": (None, "2"),
    "node.id": (None, "one", "99999999999", "77"),
    "directory.id": (None, "damaged", "", "~~~~~~~~~~~~~~~~~~~~~~"),
    "cluster.id": (LONG,),
}
"""Invalid values of the properties; None for a missing one."""
STATE_FIELDS: Final[Mapping[str, tuple[object, ...]]] = {
    "data_version": (None, 2, True, "1"),
    "leaderEpoch": (-1, "1", None, 1 << 40, True),
    "leaderId": (-2, 1.5),
    "votedId": ("x", -7),
    "votedDirectoryId": (5, "damaged"),
    "clusterId": (5, "\ud800", LONG),
    "brokerId": (77, "1"),
    "appliedOffset": (-1, 1 << 70),
    "currentVoters": (5, [5], [{"voterId": "x"}]),
    "targetVoters": ({}, [{"voter": 1}]),
    "catchingUp": ("yes", 1),
    "founders": (5, [5], [{"voterId": 1, "directoryId": 5}], [{"voterId": 1, "port": 1 << 20}]),
}
"""Invalid values of the fields of quorum-state; None for a missing field."""
STATE_TEXTS: Final = (b"", b"damaged", b"[]", b"7", b"[" * 60_000, HUGE)
CHECKPOINTS: Final = (
    b"", b"1\n0\n", b"0\n", b"0\n2\nother 0 5\n", b"0\n1\n__cluster_metadata 0 many\n",
    b"0\n2\nother 0 5\n__cluster_metadata 0 99999999999999999999\n", b"\xff\xfe", HUGE,
)  # fmt: skip


MAX_FURTHER: Final = 40
"""A node is started with fewer than this number of further damages, one at a time."""

Files = Mapping[str, bytes | None]
"""The content of files by path, None for a missing file."""
Damage = Callable[[Random, Machine], Files]
"""Returns the files to damage."""


class DamagedFile:
    """A node is started with damaged or missing files, several times, and then continues with its own files."""

    name = "damaged file"

    def available(self, cluster: Cluster) -> bool:
        return bool(_candidates(cluster))

    def inject(self, cluster: Cluster, random: Random) -> None:
        machine = random.choice(_candidates(cluster))
        cluster.kill(machine.node_id)
        usual = (
            self._meta_properties,
            self._quorum_state,
            self._quorum_state,
            self._checkpoint,
            self._segments,
        )
        self.refuse(cluster, random, machine, random.choice(usual))
        further = (*usual, self._bootstrap, self._contradiction, self._contradiction)
        for _ in range(random.randrange(MAX_FURTHER)):
            self.refuse(cluster, random, machine, random.choice(further))
        cluster.restart_later(machine.node_id)

    def refuse(self, cluster: Cluster, random: Random, machine: Machine, damage: Damage) -> None:
        """Start a node that is down with these damages. Raises InvariantViolation if it does not refuse."""
        root = machine.disk.copy()
        files = damage(random, machine)

        def edit() -> None:
            for path, data in files.items():
                _edit(machine, path, data)

        mistake = "; ".join(
            f"{path} is {'missing' if data is None else bytes(data[:80])!r}" for path, data in files.items()
        )
        why, ignored = "with damaged files", _changed_by_recovery(files)
        expect_refusal(
            cluster, machine, root, mistake, edit, why, lambda changed: not changed.endswith(ignored)
        )

    def _meta_properties(self, random: Random, machine: Machine) -> Files:
        if random.random() < 0.1:
            return {META_PATH: random.choice((None, HUGE))}
        key = random.choice(list(META_LINES))
        value = random.choice(META_LINES[key])
        lines = _read(machine, META_PATH).decode().splitlines()
        kept = [line for line in lines if not line.startswith(f"{key}=")]
        lines = kept if value is None else [*kept, f"{key}={value}"]
        return {META_PATH: "\n".join(lines).encode()}

    def _quorum_state(self, random: Random, machine: Machine) -> Files:
        saved = _read(machine, STATE_PATH)
        if random.random() < 0.2 or not saved:
            return {STATE_PATH: random.choice(STATE_TEXTS)}
        fields = json.loads(saved.partition(b"\n")[0])
        name = random.choice(list(STATE_FIELDS))
        value = random.choice(STATE_FIELDS[name])
        fields[name] = value
        if value is None:
            del fields[name]
        return {STATE_PATH: json.dumps(fields).encode() + b"\n"}

    def _checkpoint(self, random: Random, machine: Machine) -> Files:
        if random.random() < 0.4:
            # The log ends below what is known to be committed.
            return {CHECKPOINT_PATH: _checkpoint_of(1 << 40)}
        return {CHECKPOINT_PATH: random.choice(CHECKPOINTS)}

    def _bootstrap(self, random: Random, machine: Machine) -> Files:
        """Damage the first records of the cluster, or replace them by those of a later version."""
        saved = _read(machine, BOOTSTRAP_PATH)
        later = encode_bootstrap([encode_record(FeatureLevelRecord("metadata.version", 99), 0)], 1)
        cut = saved[: random.randrange(len(saved))] if saved else b""
        # A node without this file has its first records in the snapshot of offset 0, and does not use others.
        return {BOOTSTRAP_PATH: random.choice((b"", cut, later if saved else b"", b"\x07" * 100))}

    def _segments(self, random: Random, machine: Machine) -> Files:
        """Lose the first segment if no snapshot replaces it; otherwise damage the checkpoint."""
        names = sorted(name for name in machine.disk.list_directory(PARTITION) if name.endswith(LOG_SUFFIX))
        has_snapshots = any(name.endswith(".checkpoint") for name in machine.disk.list_directory(PARTITION))
        if len(names) > 1 and not has_snapshots and int(names[1].removesuffix(LOG_SUFFIX)) > 0:
            return {f"{PARTITION}/{names[0]}": None}
        if not has_snapshots and random.random() < 0.3:
            # Renamed to offsets that no log can reach.
            content = {name: _read(machine, f"{PARTITION}/{name}") for name in names}
            removed = {f"{PARTITION}/{name}": None for name in names}
            numbered = enumerate(content.values(), HUGE_OFFSET)
            return {**removed, **{f"{PARTITION}/{at:020d}{LOG_SUFFIX}": data for at, data in numbered}}
        return self._checkpoint(random, machine)

    def _contradiction(self, random: Random, machine: Machine) -> Files:
        """Replace the log by a snapshot and a segment that contradict the metadata before them, or are damaged."""
        saved = _read(machine, STATE_PATH)
        epoch = json.loads(saved.partition(b"\n")[0])["leaderEpoch"] if saved else 0
        if epoch == 0:
            return self._quorum_state(random, machine)
        return replaced_log(machine, draw_contradiction(random, epoch))


def replaced_log(machine: Machine, log: Mapping[str, bytes]) -> Files:
    """Replace the log of a stopped node by these files, all of whose records are known to be committed."""
    own = [name for name in machine.disk.list_directory(PARTITION) if name.endswith(LOG_FILES)]
    return {
        **{f"{PARTITION}/{name}": None for name in own},
        **{f"{PARTITION}/{name}": data for name, data in log.items()},
        CHECKPOINT_PATH: _checkpoint_of(end_offset(log[segment_name()])),
    }


def _candidates(cluster: Cluster) -> list[Machine]:
    """Return the running machines with these files; a sole voter may lack quorum-state."""
    return [
        machine
        for machine in undisturbed(cluster)
        if META_PROPERTIES in machine.disk.durable_names(DATA_DIRECTORY)
        and QUORUM_STATE in machine.disk.durable_names(PARTITION)
    ]


def _changed_by_recovery(files: Files) -> tuple[str, ...]:
    """Return the endings of files that recovery may change before the node refuses: it reads the first records of a
    cluster, and applies its metadata, only after it has recovered the log."""
    if CHECKPOINT_PATH in files and len(files) > 1:
        return (*LOG_FILES, QUARANTINE_SUFFIX, EPOCH_FILE, BOOT_TIMESTAMP_FILE, f"{BOOT_TIMESTAMP_FILE}.tmp")
    return (LOG_SUFFIX, ".index", ".timeindex") if BOOTSTRAP_PATH in files else ()


def _checkpoint_of(high_watermark: int) -> bytes:
    return f"0\n1\n__cluster_metadata 0 {high_watermark}\n".encode()


def _edit(machine: Machine, path: str, data: bytes | None) -> None:
    if data is None:
        machine.disk.remove(path)
        return
    file = machine.disk.open(path, create=True)
    file.truncate(0)
    file.write_at(0, data)
    file.close()


def _read(machine: Machine, path: str) -> bytes:
    return machine.disk.contents().get(path, b"")
