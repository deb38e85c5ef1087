"""Damage to the small files of a log directory, and lost segments: a node must refuse to start, and change
nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from quorumd.log.bootstrap_file import encode_bootstrap
from quorumd.log.high_watermark_checkpoint import FILE_NAME as CHECKPOINT
from quorumd.log.meta_properties import BOOTSTRAP_FILE, partition_directory
from quorumd.log.meta_properties import FILE_NAME as META_PROPERTIES
from quorumd.log.quorum_state_file import FILE_NAME as QUORUM_STATE
from quorumd.log.segment import LOG_SUFFIX
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.data_directories import DATA_DIRECTORY, expect_refusal
from quorumd.simulator.faults.base import undisturbed

PARTITION = partition_directory(DATA_DIRECTORY)
META_PATH: Final = f"{DATA_DIRECTORY}/{META_PROPERTIES}"
STATE_PATH: Final = f"{PARTITION}/{QUORUM_STATE}"
BOOTSTRAP_PATH: Final = f"{DATA_DIRECTORY}/{BOOTSTRAP_FILE}"
CHECKPOINT_PATH: Final = f"{DATA_DIRECTORY}/{CHECKPOINT}"
HUGE: Final = b"#" * (65 * 1024)
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

Damage = Callable[[Random, Machine], tuple[str, bytes | None]]
"""Returns the path of the file to damage, and its content, None for a missing file."""


class DamagedFile:
    """A node is started with one damaged or missing file, several times, and then continues with its own files."""

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
        self._refuse(cluster, random, machine, random.choice(usual))
        for _ in range(random.randrange(MAX_FURTHER)):
            self._refuse(cluster, random, machine, random.choice((*usual, self._bootstrap)))
        cluster.restart_later(machine.node_id)

    def _refuse(self, cluster: Cluster, random: Random, machine: Machine, damage: Damage) -> None:
        root = machine.disk.copy()
        path, data = damage(random, machine)

        def edit() -> None:
            if data is None:
                machine.disk.remove(path)
            else:
                file = machine.disk.open(path, create=True)
                file.truncate(0)
                file.write_at(0, data)
                file.close()

        mistake = f"{path} is {'missing' if data is None else bytes(data[:80])!r}"
        # The first records of the cluster are read after the log, which recovery trims.
        ignored = (LOG_SUFFIX, ".index", ".timeindex") if path == BOOTSTRAP_PATH else ()
        why = "with damaged files"
        expect_refusal(
            cluster, machine, root, mistake, edit, why, lambda changed: not changed.endswith(ignored)
        )

    def _meta_properties(self, random: Random, machine: Machine) -> tuple[str, bytes | None]:
        if random.random() < 0.1:
            return META_PATH, random.choice((None, HUGE))
        key = random.choice(list(META_LINES))
        value = random.choice(META_LINES[key])
        lines = _read(machine, META_PATH).decode().splitlines()
        kept = [line for line in lines if not line.startswith(f"{key}=")]
        return META_PATH, "\n".join(kept if value is None else [*kept, f"{key}={value}"]).encode()

    def _quorum_state(self, random: Random, machine: Machine) -> tuple[str, bytes | None]:
        saved = _read(machine, STATE_PATH)
        if random.random() < 0.2 or not saved:
            return STATE_PATH, random.choice(STATE_TEXTS)
        fields = json.loads(saved.partition(b"\n")[0])
        name = random.choice(list(STATE_FIELDS))
        value = random.choice(STATE_FIELDS[name])
        fields[name] = value
        if value is None:
            del fields[name]
        return STATE_PATH, json.dumps(fields).encode() + b"\n"

    def _checkpoint(self, random: Random, machine: Machine) -> tuple[str, bytes | None]:
        if random.random() < 0.4:
            # The log ends below what is known to be committed.
            return CHECKPOINT_PATH, f"0\n1\n__cluster_metadata 0 {1 << 40}\n".encode()
        return CHECKPOINT_PATH, random.choice(CHECKPOINTS)

    def _bootstrap(self, random: Random, machine: Machine) -> tuple[str, bytes | None]:
        """Damage the first records of the cluster, or replace them by those of a later version."""
        saved = _read(machine, BOOTSTRAP_PATH)
        later = encode_bootstrap([encode_record(FeatureLevelRecord("metadata.version", 99), 0)], 1)
        cut = saved[: random.randrange(len(saved))] if saved else b""
        # A node without this file has its first records in the snapshot of offset 0, and does not use others.
        return BOOTSTRAP_PATH, random.choice((b"", cut, later if saved else b"", b"\x07" * 100))

    def _segments(self, random: Random, machine: Machine) -> tuple[str, bytes | None]:
        """Lose the first segment if no snapshot replaces it; otherwise damage the checkpoint."""
        names = sorted(name for name in machine.disk.list_directory(PARTITION) if name.endswith(LOG_SUFFIX))
        has_snapshots = any(name.endswith(".checkpoint") for name in machine.disk.list_directory(PARTITION))
        if len(names) > 1 and not has_snapshots and int(names[1].removesuffix(LOG_SUFFIX)) > 0:
            return f"{PARTITION}/{names[0]}", None
        return self._checkpoint(random, machine)


def _candidates(cluster: Cluster) -> list[Machine]:
    """Return the running machines with these files; a sole voter may lack quorum-state."""
    return [
        machine
        for machine in undisturbed(cluster)
        if META_PROPERTIES in machine.disk.durable_names(DATA_DIRECTORY)
        and QUORUM_STATE in machine.disk.durable_names(PARTITION)
    ]


def _read(machine: Machine, path: str) -> bytes:
    return machine.disk.contents().get(path, b"")
