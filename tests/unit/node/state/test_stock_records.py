"""Records of a stock controller survive in quorumd's snapshots, record for record.

tests/support/data/kafka_4.3.1_records.zip holds the log and the newest snapshots of a controller of Kafka 4.3.1, with
access control entries, SCRAM credentials, quotas, delegation tokens and a cordoned directory
(written by tests/interop/stock_tools/kept_records.py): its own snapshots are the oracle for the image of its log.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path

import pytest

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.image_records import snapshot_frames
from quorumd.ids import OffsetAndEpoch
from quorumd.log.meta_properties import partition_directory
from quorumd.log.snapshot_file import file_name, parse_snapshot_name, read_batches
from quorumd.node.snapshots.builder import build_snapshot
from quorumd.node.state.snapshot_loader import load_image
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import values
from quorumd.simulator.environment.disk import SimulatedDisk
from tests.support.log.small_logs import fresh_disk

ARCHIVE = Path(__file__).parents[3] / "support" / "data" / "kafka_4.3.1_records.zip"
DIRECTORY = partition_directory("1")


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = fresh_disk(1)
    disk.make_directory(DIRECTORY)
    with zipfile.ZipFile(ARCHIVE) as archive:
        for name in archive.namelist():
            assert disk.put(name, archive.read(name))
    return disk


def stock_snapshots(disk: SimulatedDisk) -> list[OffsetAndEpoch]:
    found = [parse_snapshot_name(name) for name in disk.list_directory(DIRECTORY)]
    return sorted(snapshot for snapshot in found if snapshot is not None)


def load(disk: SimulatedDisk, snapshot: OffsetAndEpoch) -> ClusterImage:
    return load_image(disk, path_of(snapshot), snapshot)


def path_of(snapshot: OffsetAndEpoch) -> str:
    return f"{DIRECTORY}/{file_name(snapshot)}"


def frames(disk: SimulatedDisk, snapshot: OffsetAndEpoch) -> Counter[bytes]:
    return Counter(
        value
        for data, header in read_batches(disk, path_of(snapshot), snapshot)
        if not header.is_control
        for value in values(data, header)
    )


def test_stock_snapshots_round_trip_record_for_record(disk: SimulatedDisk) -> None:
    for snapshot in stock_snapshots(disk):
        assert Counter(snapshot_frames(load(disk, snapshot))) == frames(disk, snapshot)


def test_stock_log_gives_the_image_of_the_stock_snapshots(disk: SimulatedDisk) -> None:
    stock = {snapshot: load(disk, snapshot) for snapshot in stock_snapshots(disk)}
    for snapshot in stock:
        disk.remove(path_of(snapshot))
    for snapshot, image in stock.items():
        built = build_snapshot(disk, "1", snapshot.offset, "test")
        assert built is not None
        assert (built.snapshot, built.is_new) == (snapshot, True)
        again = load(disk, snapshot)
        assert (again.fingerprint(), again.hash) == (image.fingerprint(), image.hash)


def test_stock_records_cover_every_record_type(disk: SimulatedDisk) -> None:
    kinds = {type(decode_record(frame)).__name__ for frame in frames(disk, stock_snapshots(disk)[-1])}
    assert kinds == {
        "AccessControlEntryRecord",
        "ClientQuotaRecord",
        "ConfigRecord",
        "DelegationTokenRecord",
        "FeatureLevelRecord",
        "PartitionRecord",
        "RegisterBrokerRecord",
        "RegisterControllerRecord",
        "TopicRecord",
        "UserScramCredentialRecord",
    }
