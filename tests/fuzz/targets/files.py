"""Bytes of the disk: small files, a properties file, logs and snapshots, and whole data directories."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any
from zlib import crc32

from quorumd.cli.log.files import files_of
from quorumd.cli.log.group import Show, _dump_file, _show_text
from quorumd.config.loader import load
from quorumd.errors import ConfigError, CorruptLog, StorageError
from quorumd.ids import METADATA_TOPIC_ID, KafkaUuid, OffsetAndEpoch
from quorumd.log import LogSettings
from quorumd.log.high_watermark_checkpoint import HighWatermarkCheckpoint
from quorumd.log.meta_properties import (
    MetaProperties,
    load_meta_properties,
    partition_directory,
    save_meta_properties,
)
from quorumd.log.quorum_state_file import QuorumStateFile, SavedState
from quorumd.log.segmented_log import SegmentedLog
from quorumd.log.snapshot_file import (
    PART,
    SUFFIX,
    SnapshotWriter,
    check_snapshot,
    file_name,
    parse_snapshot_name,
    read_batches,
)
from quorumd.log.snapshot_store import SnapshotStore
from quorumd.node.identity.identity_files import next_boot_timestamp
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.control_record import encode_control
from quorumd.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from quorumd.protocol.record_batch import encode_batch, encode_control_batch
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process
from tests.fuzz.target import Parse, Target
from tests.fuzz.targets.wire import batches, mend_batches, metadata_records
from tests.support.log.snapshots import voters_record, write_snapshot
from tests.support.node.nodes import DATA_DIRECTORY, Cluster

CONFIG = Path(__file__).parents[3] / "config"
TEXT_TOKENS = (
    *(b"[", b"{", b"[[", b'{"a":', b'"', b"\\", b"\\u", b"\\ud800", b"\\udc00", b"\\u0000", b"\n", b"\r"),
    *(b"=", b":", b"#", b"!", b" ", b",", b"-", b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(
        b"1e999",
        b"NaN",
        b"Infinity",
        b"null",
        b"true",
        b"1.0",
        b"-1",
        b"\xd9\xa1",
        b"\xc2\xb2",
        b"\xe2\x80\xa8",
    ),
    *(b"2147483647", b"2147483648", b"9223372036854775807", b"9223372036854775808", b"9" * 4301),
)
PARTITION = partition_directory(DATA_DIRECTORY)
SETTINGS = LogSettings(segment_bytes=600, index_interval_bytes=100, allocate_bytes=200)
_DIRECTORY_ID = KafkaUuid(b"a" * 16)


def fresh_disk() -> SimulatedDisk:
    disk = SimulatedDisk(EventHeap(), Random(1))
    disk.mount(Process("fuzz"))
    disk.make_directory(PARTITION)
    return disk


def put(disk: SimulatedDisk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write_at(0, data)
    file.close()


def content(disk: SimulatedDisk, path: str) -> bytes:
    file = disk.open(path)
    return file.read_at(0, file.size())


# ---- small files


def _quorum_states() -> list[bytes]:
    disk = fresh_disk()
    states = (
        SavedState(),
        SavedState(3, 1, 2, _DIRECTORY_ID, "cluster", 1, 17, (1, 2, 3), (1, 2)),
        SavedState(2**31 - 1, -1, 5, broker_id=5, applied_offset=2**63 - 1),
    )
    found = [
        b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,"data_version":0}\n'
    ]
    for state in states:
        QuorumStateFile(disk, PARTITION).save(state)
        found.append(content(disk, f"{PARTITION}/quorum-state"))
    return found


def _load_quorum_state(disk: SimulatedDisk, data: bytes) -> None:
    """A loaded file can be saved and loaded again, and its cluster id can be sent."""
    put(disk, f"{PARTITION}/quorum-state", data)
    file = QuorumStateFile(disk, PARTITION)
    state = file.load()
    assert state is not None
    state.cluster_id.encode()
    file.save(state)
    assert file.load() == state


def _meta_properties() -> list[bytes]:
    disk = fresh_disk()
    found = []
    for cluster_id in (None, "cluster", "odd =:#! \\ id"):
        save_meta_properties(disk, DATA_DIRECTORY, MetaProperties(1, _DIRECTORY_ID, cluster_id))
        found.append(content(disk, f"{DATA_DIRECTORY}/meta.properties"))
    return found


def _load_meta_properties(disk: SimulatedDisk, data: bytes) -> None:
    put(disk, f"{DATA_DIRECTORY}/meta.properties", data)
    meta = load_meta_properties(disk, DATA_DIRECTORY)
    assert meta is not None
    (meta.cluster_id or "").encode()
    save_meta_properties(disk, DATA_DIRECTORY, meta)


def _load_checkpoint(disk: SimulatedDisk, data: bytes) -> None:
    put(disk, f"{DATA_DIRECTORY}/replication-offset-checkpoint", data)
    assert 0 <= HighWatermarkCheckpoint(disk, DATA_DIRECTORY).load() < 2**63


def _next_boot(disk: SimulatedDisk, data: bytes) -> None:
    put(disk, f"{DATA_DIRECTORY}/boot-timestamp", data)
    assert 0 < next_boot_timestamp(disk, DATA_DIRECTORY, 1000) < 2**63


# ---- text of an operator


def _properties_files() -> list[bytes]:
    return [path.read_bytes() for path in sorted(CONFIG.rglob("*.properties"))] + [
        b"node.id=1\nlog.dirs=/a\nlisteners=PLAINTEXT://:1\nquorum.voters=1@a:1,2@b:2\n",
        b"node.id : 1\\\n  2\n! c\nlog.dirs \\u0041\\t\nprocess.roles=controller\n",
    ]


def _make_load_properties() -> Parse:
    path = Path(mkdtemp(prefix="quorumd-fuzz-")) / "a.properties"

    def load_properties(data: bytes) -> None:
        path.write_bytes(data)
        for _, value in load(str(path)).properties:
            value.encode()

    return load_properties


# ---- log dump


def _show_json(row: dict[str, Any]) -> None:
    json.dumps(row)


def _make_dump(suffix: str) -> Parse:
    path = Path(mkdtemp(prefix="quorumd-fuzz-")) / f"00000000000000000000{suffix}"

    def dump(data: bytes) -> None:
        """Dump text, JSON or headers only, depending on the checksum of the data."""
        path.write_bytes(data)
        form = crc32(data) % 3
        show: Show = _show_text if form == 0 else _show_json
        with redirect_stdout(io.StringIO()):
            for file in files_of(path):
                list(_dump_file(file, form == 2, form == 1, show))

    return dump


def _indexes() -> list[bytes]:
    return [
        bytes(64),
        b"".join(i.to_bytes(4, "big") + (i * 90).to_bytes(4, "big") for i in range(1, 40)) + bytes(16),
        b"".join((i * 1000).to_bytes(8, "big") + i.to_bytes(4, "big") for i in range(1, 30)),
    ]


# ---- a snapshot

_SNAPSHOT = OffsetAndEpoch(42, 3)
_SNAPSHOT_PATH = f"{PARTITION}/{file_name(_SNAPSHOT)}"


@cache
def _snapshots() -> list[bytes]:
    """Snapshots with and without voters, empty and with all types of records, and batches that are not snapshots."""
    disk = fresh_disk()
    found = []
    for voters in (None, voters_record(), voters_record(1, 2, 3), voters_record(*range(1, 40))):
        for values in ([], [b""], metadata_records()):
            writer = SnapshotWriter(disk, PARTITION, _SNAPSHOT, 1000, voters, "fuzz")
            for start in range(0, len(values), 20):
                writer.write(values[start : start + 20])
            writer.finish()
            found.append(content(disk, _SNAPSHOT_PATH))
    controls = [encode_control(SnapshotFooterRecord(0))] * 3000
    return [*found, found[0] + found[1], encode_control_batch(0, 3, 1, controls), *batches()]


def _has_known_records(disk: SimulatedDisk) -> bool:
    """Return True if every record of the snapshot can be read, which is required to install a fetched snapshot."""
    try:
        check_snapshot(disk, _SNAPSHOT_PATH, _SNAPSHOT, with_records=True)
    except StorageError:
        return False
    return True


def _check_snapshot(data: bytes) -> None:
    """A valid snapshot can be read to its end, whether it was fetched or is local."""
    disk = fresh_disk()
    put(disk, _SNAPSHOT_PATH + PART, data)
    store = SnapshotStore(disk, PARTITION)
    assert store.part_size(_SNAPSHOT) == len(data)
    try:
        summary = store.finish_part(_SNAPSHOT)
    except StorageError:
        assert disk.list_directory(PARTITION) == []
        put(disk, _SNAPSHOT_PATH, data)
        store.rescan()
        summary = store.check(_SNAPSHOT)
        assert summary.voters is None or not _has_known_records(disk)
    store.rescan()
    (stored,) = store.stored()
    assert (stored.size, stored.timestamp_ms) == (summary.size, summary.timestamp_ms)
    size = records = 0
    for piece, header in read_batches(disk, _SNAPSHOT_PATH, _SNAPSHOT):
        assert data.startswith(piece[header.position : header.position + header.size], size)
        size += header.size
        records += 0 if header.is_control else header.count
    assert (size, records) == (len(data), summary.records)


# ---- whole data directories, packed into one input

_NAMES = (
    f"{PARTITION}/00000000000000000000.log",
    f"{PARTITION}/00000000000000000006.log",
    f"{PARTITION}/00000000000000000012.log",
    f"{PARTITION}/00000000000000000000.index",
    f"{PARTITION}/00000000000000000000.timeindex",
    f"{PARTITION}/00000000000000000006.index",
    f"{PARTITION}/leader-epoch-checkpoint",
    f"{PARTITION}/quorum-state",
    f"{PARTITION}/quorum-state.tmp",
    f"{PARTITION}/partition.metadata",
    f"{DATA_DIRECTORY}/meta.properties",
    f"{DATA_DIRECTORY}/replication-offset-checkpoint",
    f"{DATA_DIRECTORY}/boot-timestamp",
    f"{PARTITION}/09223372036854775807.log",
    f"{PARTITION}/99999999999999999999.log",
    f"{PARTITION}/00000000002147483647.log",
    f"{PARTITION}/00000000000000000000-0000000001.checkpoint",
    f"{PARTITION}/00000000000000000012-0000000003.checkpoint",
    f"{PARTITION}/00000000000000000020-0000000005.checkpoint",
    f"{PARTITION}/0.log",
)


def packed(files: dict[str, bytes]) -> bytes:
    """Concatenate the number of the name, three bytes of length, and the content of every file."""
    return b"".join(
        bytes([_NAMES.index(path)]) + len(data).to_bytes(3, "big") + data for path, data in files.items()
    )


def unpacked(data: bytes) -> dict[str, bytes]:
    """Unpack the files of a directory; any bytes are valid."""
    files = {}
    position = 0
    while position < len(data):
        path = _NAMES[data[position] % len(_NAMES)]
        end = position + 4 + int.from_bytes(data[position + 1 : position + 4], "big")
        files[path] = data[position + 4 : end]
        position = end
    return files


@cache
def _directories() -> list[bytes]:
    """Return directories of a stopped node, with logs, snapshots and small files."""
    disk = fresh_disk()
    log, _ = SegmentedLog.open(disk, PARTITION, SETTINGS)
    for epoch in range(1, 19):
        log.append(encode_batch(log.end_offset, epoch // 4, epoch, [b"x" * 20]), log.end_offset + 1)
    log.close()
    segments = {
        f"{PARTITION}/{name}": content(disk, f"{PARTITION}/{name}") for name in disk.list_directory(PARTITION)
    }
    small = {
        f"{DATA_DIRECTORY}/meta.properties": f"version=1\nnode.id=1\ndirectory.id={_DIRECTORY_ID}\n".encode(),
        f"{PARTITION}/partition.metadata": f"version: 0\ntopic_id: {METADATA_TOPIC_ID}".encode(),
        f"{DATA_DIRECTORY}/boot-timestamp": b"123\n",
    }
    named = {path: data for path, data in segments.items() if path in _NAMES}
    found = [packed(named | small)]
    for state in _quorum_states():
        saved = {f"{PARTITION}/quorum-state": state}
        found += [packed(small | saved | {_NAMES[0]: batch + bytes(50)}) for batch in batches()]
    for snapshot in _snapshots_of_directories():
        found += [packed(named | snapshot), packed(small | snapshot)]
        tail = {path: data for path, data in (named | snapshot).items() if "/00000000000000000012" in path}
        found.append(packed(small | tail))
    checkpoint = {f"{DATA_DIRECTORY}/replication-offset-checkpoint": b"0\n1\n__cluster_metadata 0 6\n"}
    found.append(packed(small | named | checkpoint))
    return [*found, *_directory_of_a_node()]


def _snapshots_of_directories() -> list[dict[str, bytes]]:
    """Return a snapshot that ends within the log, a snapshot that ends beyond it, and both together."""
    disk = fresh_disk()
    paths = [
        path for path in _NAMES if path.endswith(SUFFIX) and parse_snapshot_name(path.rpartition("/")[2])
    ]
    within, ahead = [
        {path: content(disk, path)}
        for path in paths[1:]
        if (snapshot := parse_snapshot_name(path.rpartition("/")[2]))
        and write_snapshot(disk, PARTITION, snapshot)
    ]
    return [within, ahead, within | ahead]


def _directory_of_a_node() -> list[bytes]:
    cluster = Cluster(1, "cluster").start()
    cluster.leader()
    cluster.run(6000)
    disk = cluster.disks[1]
    paths = [path for path in _NAMES if disk.exists(path)]
    return [packed({path: content(disk, path) for path in paths})]


def mend_directory(data: bytes) -> bytes:
    """Repair the lengths and CRCs of the batches in segments and snapshots."""
    return packed(
        {
            path: mend_batches(file) if path.endswith((".log", SUFFIX)) else file
            for path, file in unpacked(data).items()
        }
    )


def _recover(data: bytes) -> None:
    """A log that was opened can be read to its end, and nothing is truncated when it is opened again."""
    disk = fresh_disk()
    for path, file in unpacked(data).items():
        put(disk, path, file)
    log, report = SegmentedLog.open(disk, PARTITION, SETTINGS, known_high_watermark=len(data) % 3)
    assert report.end_offset == log.end_offset
    offset = log.start_offset
    size = 0
    while read := log.read(offset, 300):
        size += len(read)
        offset = _end_of(read)
    assert offset == log.end_offset
    log.end_of_epoch(log.last_epoch)
    log.close()
    again, second = SegmentedLog.open(disk, PARTITION, SETTINGS)
    assert second.truncations == ()
    assert again.end_offset == report.end_offset
    again.truncate(again.start_offset + 1)


def _end_of(data: bytes) -> int:
    return list(headers(data))[-1].end_offset


def _start_node(data: bytes) -> None:
    """A node on the directory fails to start, runs, or stops with an exit code, without an unexpected exception."""
    cluster = Cluster(1, log=LogSettings(allocate_bytes=0))
    disk = cluster.disks[1]
    for path, file in unpacked(data).items():
        put(disk, path, file)
    cluster.start_node(1)
    cluster.run(3000)


def _small(
    name: str,
    share: float,
    corpus: Callable[[], Sequence[bytes]],
    parse: Callable[[SimulatedDisk, bytes], None],
    allowed: type[Exception],
) -> Target:
    """Return the target of a small file, which is on a fresh disk for every input."""
    return Target(
        name, share, corpus, lambda: lambda data: parse(fresh_disk(), data), (allowed,), TEXT_TOKENS
    )


TARGETS = (
    _small("quorum-state", 4, _quorum_states, _load_quorum_state, CorruptLog),
    _small("meta.properties", 3, _meta_properties, _load_meta_properties, CorruptLog),
    _small(
        "replication-offset-checkpoint",
        3,
        lambda: [
            b"0\n1\n__cluster_metadata 0 42\n",
            b"0\n2\na 0 1\n__cluster_metadata 0 9223372036854775807\n",
        ],
        _load_checkpoint,
        CorruptLog,
    ),
    _small("boot-timestamp", 1, lambda: [b"1700000000000\n", b""], _next_boot, StorageError),
    Target("properties file", 1.5, _properties_files, _make_load_properties, (ConfigError,), TEXT_TOKENS),
    Target("log dump", 2, batches, lambda: _make_dump(".log"), (), mend=mend_batches),
    Target("log dump, snapshot", 0.3, batches, lambda: _make_dump(".checkpoint"), (), mend=mend_batches),
    Target("log dump, index", 0.5, _indexes, lambda: _make_dump(".index"), ()),
    Target("log dump, timeindex", 0.5, _indexes, lambda: _make_dump(".timeindex"), ()),
    Target("snapshot", 1.5, _snapshots, lambda: _check_snapshot, (StorageError,), mend=mend_batches),
    Target("recovery", 1.5, _directories, lambda: _recover, (StorageError,), TEXT_TOKENS, mend_directory),
    Target(
        "node start", 0.2, _directories, lambda: _start_node, (StorageError,), TEXT_TOKENS, mend_directory
    ),
)
