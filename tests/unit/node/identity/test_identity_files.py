from __future__ import annotations

from random import Random

import pytest

from quorumd.errors import CorruptLog, StorageError
from quorumd.ids import ZERO_UUID, Endpoint, KafkaUuid, ReplicaKey
from quorumd.log.meta_properties import format_directory, partition_directory
from quorumd.log.quorum_state_file import Founder, QuorumStateFile, SavedState
from quorumd.node.identity.identity_files import (
    BOOT_TIMESTAMP_FILE,
    load_saved_node,
    next_boot_timestamp,
    to_saved_state,
)
from quorumd.raft.quorum_state import QuorumState
from quorumd.raft.voters import Voter, VoterAssignment, VoterSet
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap

DATA_DIRECTORY = "/data"
OURS, THEIRS = "o" * 22, "t" * 22
DIRECTORY_ID, OTHER = KafkaUuid(bytes(15) + b"\x41"), KafkaUuid(bytes(15) + b"\x42")
FOUNDERS = VoterSet((Voter(ReplicaKey(2, OTHER), (Endpoint("CONTROLLER", "host", 9092),)),))


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(EventHeap(), Random(1))
    disk.make_directory(DATA_DIRECTORY)
    return disk


def formatted(disk: SimulatedDisk, cluster_id: str | None = OURS) -> SimulatedDisk:
    format_directory(disk, DATA_DIRECTORY, node_id=1, directory_id=DIRECTORY_ID, cluster_id=cluster_id)
    return disk


def save(disk: SimulatedDisk, state: SavedState) -> None:
    QuorumStateFile(disk, partition_directory(DATA_DIRECTORY)).save(state)


def test_unformatted_directory_is_refused_with_the_remedy(disk: SimulatedDisk) -> None:
    with pytest.raises(StorageError, match="quorumd format"):
        load_saved_node(disk, DATA_DIRECTORY, 1, "CONTROLLER")


def test_directory_of_another_node_is_refused(disk: SimulatedDisk) -> None:
    with pytest.raises(StorageError, match=r"belongs to node 1.*node 2"):
        load_saved_node(formatted(disk), DATA_DIRECTORY, 2, "CONTROLLER")


def test_hole_21_copied_quorum_state_is_refused(disk: SimulatedDisk) -> None:
    save(formatted(disk), SavedState(3, broker_id=2))
    with pytest.raises(StorageError, match="written by node 2"):
        load_saved_node(disk, DATA_DIRECTORY, 1, "CONTROLLER")


def test_hole_21_quorum_state_of_another_cluster_is_refused(disk: SimulatedDisk) -> None:
    save(formatted(disk), SavedState(3, broker_id=1, cluster_id=THEIRS))
    with pytest.raises(StorageError, match=f"cluster {THEIRS}"):
        load_saved_node(disk, DATA_DIRECTORY, 1, "CONTROLLER")


def test_hole_39_corrupt_quorum_state_is_refused(disk: SimulatedDisk) -> None:
    save(formatted(disk), SavedState(3, broker_id=1))
    disk.open(f"{partition_directory(DATA_DIRECTORY)}/quorum-state").write_at(0, b"!")
    with pytest.raises(CorruptLog, match="quorum-state"):
        load_saved_node(disk, DATA_DIRECTORY, 1, "CONTROLLER")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (SavedState(), QuorumState()),
        (SavedState(4, 2, broker_id=1), QuorumState(4, 2)),
        (SavedState(4, -1, 3, OTHER, broker_id=1), QuorumState(4, -1, ReplicaKey(3, OTHER))),
        (SavedState(4, 3, 3, ZERO_UUID), QuorumState(4, 3, ReplicaKey(3))),
    ],
)
def test_epoch_leader_and_vote_are_loaded(
    disk: SimulatedDisk, state: SavedState, expected: QuorumState
) -> None:
    save(formatted(disk), state)
    assert load_saved_node(disk, DATA_DIRECTORY, 1, "CONTROLLER").quorum_state == expected


def test_new_directory_has_no_state(disk: SimulatedDisk) -> None:
    saved = load_saved_node(formatted(disk), DATA_DIRECTORY, 1, "CONTROLLER")
    assert saved.quorum_state == QuorumState()
    assert saved.meta.directory_id == DIRECTORY_ID


@pytest.mark.parametrize(
    ("in_meta", "in_state", "expected"),
    [(None, "", None), (OURS, "", OURS), (None, OURS, OURS), (OURS, OURS, OURS)],
)
def test_cluster_id_is_loaded_from_either_file(
    disk: SimulatedDisk, in_meta: str | None, in_state: str, expected: str | None
) -> None:
    """A crash may occur between the two writes."""
    save(formatted(disk, in_meta), SavedState(3, broker_id=1, cluster_id=in_state))
    assert load_saved_node(disk, DATA_DIRECTORY, 1, "CONTROLLER").cluster_id == expected


def test_hole_26_boot_timestamps_increase_even_if_the_clock_goes_back(disk: SimulatedDisk) -> None:
    timestamps = [next_boot_timestamp(disk, DATA_DIRECTORY, wall_ms) for wall_ms in (5000, 5000, 4000, 6000)]
    assert timestamps == [5000, 5001, 5002, 6000]


@pytest.mark.parametrize("content", [b"soon\n", b"9223372036854775807\n", b"9" * 4301, b"-7", b"\xb2"])
def test_invalid_boot_timestamp_is_replaced(disk: SimulatedDisk, content: bytes) -> None:
    disk.open(f"{DATA_DIRECTORY}/{BOOT_TIMESTAMP_FILE}", create=True).write_at(0, content)
    assert next_boot_timestamp(disk, DATA_DIRECTORY, 5000) == 5000


def test_node_starts_on_a_full_disk(disk: SimulatedDisk) -> None:
    next_boot_timestamp(disk, DATA_DIRECTORY, 5000)
    disk.capacity = disk.used_bytes()
    assert next_boot_timestamp(disk, DATA_DIRECTORY, 4000) == 5001


@pytest.mark.parametrize(
    ("committed", "has_founders"), [(VoterAssignment(VoterSet()), True), (VoterAssignment(FOUNDERS), False)]
)
def test_founders_are_saved_while_no_voters_are_committed(
    committed: VoterAssignment, has_founders: bool
) -> None:
    state = QuorumState(3, 2, ReplicaKey(2, OTHER))
    found = to_saved_state(state, None, 1, 7, committed, FOUNDERS)
    assert found.founders == ((Founder(2, OTHER, "host", 9092),) if has_founders else None)
    assert (found.current_voters, found.applied_offset, found.cluster_id) == (committed.current.ids, 7, "")
    assert (found.leader_epoch, found.leader_id, found.voted_id, found.voted_directory_id) == (3, 2, 2, OTHER)
