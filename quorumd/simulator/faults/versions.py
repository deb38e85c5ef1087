"""Files written by a later version: a downgraded node, or a copied file."""

from __future__ import annotations

from random import Random

from quorumd.ids import OffsetAndEpoch
from quorumd.log.meta_properties import partition_directory
from quorumd.log.segment import LOG_SUFFIX
from quorumd.log.snapshot_file import SUFFIX, file_name
from quorumd.protocol.batch_scan import Gapless, scan
from quorumd.protocol.control_record import encode_control
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from quorumd.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.data_directories import DATA_DIRECTORY, expect_refusal
from quorumd.simulator.faults.base import undisturbed

PARTITION = partition_directory(DATA_DIRECTORY)
NEWER_VERSION_FRAMES = (b"\x01\x63\x00\x00", b"\x01\x04\x07\x00")
"""A record of an unknown type, and a record in an unknown version."""
KNOWN = encode_record(ConfigRecord(32, "group", "name", "value"), 0)


class NewerRecordVersion:
    """A node is started on its own files with a record of a later version in its log, or in a newer snapshot: it must
    exit before it changes anything, and continues later with its original files."""

    name = "newer record version"

    def available(self, cluster: Cluster) -> bool:
        return bool(_candidates(cluster))

    def inject(self, cluster: Cluster, random: Random) -> None:
        machine = random.choice(_candidates(cluster))
        path = _last_segment(machine)
        in_snapshot, frame = random.random() < 0.3, random.choice(NEWER_VERSION_FRAMES)
        cluster.kill(machine.node_id)

        def edit() -> None:
            file = machine.disk.open(path)
            found = scan(file.read_at(0, file.size()), Gapless())
            last = found.headers[-1]
            if in_snapshot:
                snapshot = OffsetAndEpoch(last.end_offset + 1, last.epoch)
                machine.disk.put(f"{PARTITION}/{file_name(snapshot)}", _snapshot(snapshot, frame))
            else:
                batch = encode_batch(last.end_offset, last.epoch, last.max_timestamp_ms, [KNOWN, frame])
                file.truncate(found.end)
                file.write_at(found.end, batch)
            file.close()

        where = "a snapshot" if in_snapshot else "the log"
        expect_refusal(
            cluster,
            machine,
            machine.disk.copy(),
            f"{where} holds the record {frame.hex()} of a later version",
            edit,
            "with records of a later version",
            lambda changed: changed.endswith((LOG_SUFFIX, SUFFIX, "quorum-state", "meta.properties")),
        )
        cluster.restart_later(machine.node_id)


def _candidates(cluster: Cluster) -> list[Machine]:
    return [machine for machine in undisturbed(cluster) if _last_segment(machine)]


def _last_segment(machine: Machine) -> str:
    """Return the newest segment if it has a batch and its name is durable, else ""."""
    newest = max(name for name in machine.disk.list_directory(PARTITION) if name.endswith(LOG_SUFFIX))
    if newest not in machine.disk.durable_names(PARTITION):
        return ""
    path = f"{PARTITION}/{newest}"
    data = machine.disk.durable_bytes(path, 0, machine.disk.durable_length(path))
    return path if scan(data, Gapless()).headers else ""


def _snapshot(snapshot: OffsetAndEpoch, frame: bytes) -> bytes:
    """Build a snapshot that is valid except for one unknown record."""
    offset, epoch = 0, snapshot.epoch
    header, footer = encode_control(SnapshotHeaderRecord(0, 1)), encode_control(SnapshotFooterRecord(0))
    parts = [encode_control_batch(offset, epoch, 1, [header])]
    parts.append(encode_batch(offset + 1, epoch, 1, [KNOWN, frame]))
    parts.append(encode_control_batch(offset + 3, epoch, 1, [footer]))
    return b"".join(parts)
