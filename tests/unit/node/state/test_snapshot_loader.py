"""A node starts from its newest valid snapshot, and never from a log without its beginning."""

from __future__ import annotations

import logging

import pytest

from quorumd.controller.cluster_image import ClusterImage
from quorumd.errors import StorageError
from quorumd.log.meta_properties import partition_directory
from quorumd.log.snapshot_file import file_name
from quorumd.node.snapshots.builder import BuiltSnapshot, build_snapshot
from quorumd.node.state.snapshot_loader import StartSnapshot, find_start_snapshot, load_image, load_steps
from quorumd.node.state.state_machine import StateMachine
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.wire import Message
from quorumd.simulator.environment.clock import SimulatedClock
from quorumd.simulator.environment.event_heap import EventHeap, Process
from tests.support.log.config_logs import DATA_DIRECTORY, ConfigLog, config_values
from tests.support.log.small_logs import fresh_disk
from tests.support.log.snapshots import CLUSTER_ID, write_snapshot
from tests.support.node.parts import NodeParts

DIRECTORY = partition_directory(DATA_DIRECTORY)


class SnapshottedLog(NodeParts):
    """A log with two snapshots of it, at offsets 101 and 202."""

    def __init__(self) -> None:
        super().__init__()
        self.configs.set_configs(0, 99)
        self.older = self.build()
        self.configs.append_voters(1, 2, 4)
        self.configs.set_configs(50, 100, "w")
        self.newer = self.build()
        self.configs.set_configs(150, 5)
        self.configs.log.snapshots.rescan()

    def build(self) -> BuiltSnapshot:
        built = build_snapshot(self.disk, DATA_DIRECTORY, self.configs.commit(), "test")
        assert built is not None
        return built

    def damage(self, built: BuiltSnapshot) -> None:
        file = self.disk.open(f"{DIRECTORY}/{file_name(built.snapshot)}")
        file.write_at(built.size // 2, b"???")
        file.close()

    def names(self) -> list[str]:
        return [name for name in self.disk.list_directory(DIRECTORY) if ".checkpoint" in name]


@pytest.fixture
def node() -> SnapshottedLog:
    return SnapshottedLog()


def test_log_without_snapshots_is_read_from_its_start() -> None:
    disk = fresh_disk(1)
    assert find_start_snapshot(ConfigLog(disk).log) == StartSnapshot(None, None)
    assert StartSnapshot().offset == 0


def test_newest_snapshot_is_chosen_with_its_voters(node: SnapshottedLog) -> None:
    start_snapshot = find_start_snapshot(node.configs.log)
    assert start_snapshot.snapshot == node.newer.snapshot
    assert start_snapshot.offset == node.newer.snapshot.offset
    assert start_snapshot.voters is not None
    assert start_snapshot.voters.offset == start_snapshot.offset - 1
    assert start_snapshot.voters.assignment.current.ids == (1, 2, 4)
    assert start_snapshot.voters.cluster_id == CLUSTER_ID


def test_damaged_snapshot_is_quarantined_for_the_previous_one(
    node: SnapshottedLog, caplog: pytest.LogCaptureFixture
) -> None:
    node.damage(node.newer)
    with caplog.at_level(logging.WARNING):
        assert find_start_snapshot(node.configs.log).snapshot == node.older.snapshot
    quarantined = file_name(node.newer.snapshot) + ".corrupt"
    assert "is corrupt" in caplog.text
    assert quarantined in caplog.text
    assert node.names() == [file_name(node.older.snapshot), quarantined]


def test_whole_log_is_read_without_a_valid_snapshot(node: SnapshottedLog) -> None:
    node.damage(node.newer)
    node.damage(node.older)
    assert find_start_snapshot(node.configs.log).snapshot is None


def test_log_that_does_not_start_at_0_needs_a_snapshot(node: SnapshottedLog) -> None:
    node.configs.log.delete_before(node.newer.snapshot)
    assert node.configs.log.start_offset == node.newer.snapshot.offset
    node.damage(node.newer)
    with pytest.raises(StorageError, match=r"offset 202\b.*\.corrupt"):
        find_start_snapshot(node.configs.log)


def test_snapshot_outside_the_log_is_ignored(node: SnapshottedLog) -> None:
    write_snapshot(node.disk, DIRECTORY, node.newer.snapshot._replace(offset=10_000))
    node.configs.log.snapshots.rescan()
    assert find_start_snapshot(node.configs.log).snapshot == node.newer.snapshot


def test_snapshot_of_a_newer_version_is_not_quarantined(node: SnapshottedLog) -> None:
    """After a downgrade the newer version, when it runs again, finds the snapshot in its place."""
    snapshot = node.newer.snapshot
    node.disk.remove(f"{DIRECTORY}/{file_name(snapshot)}")
    write_snapshot(node.disk, DIRECTORY, snapshot, [b"\x01\x7f\x00"])
    with pytest.raises(StorageError, match=file_name(snapshot)):
        find_start_snapshot(node.configs.log)
    assert file_name(snapshot) in node.names()


def test_loading_yields_after_records_per_step(node: SnapshottedLog) -> None:
    image = ClusterImage()
    path = f"{DIRECTORY}/{file_name(node.newer.snapshot)}"
    counts = list(load_steps(node.disk, path, node.newer.snapshot, image, 40))
    assert counts == [40, 40, 40, 31]
    assert len(config_values(image.configs)) == 150
    assert image.config((32, "g2"))["c149"] == "w"
    assert image.fingerprint() == load_image(node.disk, path, node.newer.snapshot).fingerprint()


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (UnfenceBrokerRecord(1, 1), "cannot be applied at its offset"),
        (BeginTransactionRecord(), "ends within a transaction"),
    ],
    ids=["contradicts", "transaction"],
)
def test_inconsistent_snapshot_is_quarantined_and_stops_the_node(
    node: SnapshottedLog, record: Message, reason: str
) -> None:
    snapshot = node.newer.snapshot
    node.disk.remove(f"{DIRECTORY}/{file_name(snapshot)}")
    write_snapshot(node.disk, DIRECTORY, snapshot, [encode_record(record, 0)])
    log = node.configs.log
    assert find_start_snapshot(log).snapshot == snapshot
    clock = SimulatedClock(EventHeap(), Process("node"))
    machine = StateMachine(log, clock, lambda callback: None, lambda callback: None)
    with pytest.raises(StorageError, match=rf"{reason}.*\.corrupt\b"):
        machine.start(snapshot, log.end_offset, node.disk, lambda: None)
    assert file_name(snapshot) + ".corrupt" in node.names()
    assert find_start_snapshot(log).snapshot == node.older.snapshot
