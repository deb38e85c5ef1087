"""quorum-state: round trip, Kafka's own versions, and rejection of files that cannot be parsed."""

from __future__ import annotations

import json

import pytest

from quorumd.errors import CorruptLog, DiskFull
from quorumd.ids import KafkaUuid
from quorumd.log.atomic_file import write_atomically
from quorumd.log.quorum_state_file import QuorumStateFile, SavedState
from quorumd.ports import Disk
from quorumd.simulator.environment.disk import SimulatedDisk

DIRECTORY_ID = KafkaUuid.parse("J8aAPcfLQt2bqs1JT_rMgQ")
FULL = SavedState(
    leader_epoch=7,
    leader_id=2,
    voted_id=3,
    voted_directory_id=DIRECTORY_ID,
    cluster_id="abc",
    broker_id=1,
    applied_offset=12,
    current_voters=(1, 2, 3),
    target_voters=(1, 2, 4),
)


@pytest.mark.parametrize(
    "state",
    [SavedState(), FULL, FULL._replace(target_voters=()), SavedState(leader_epoch=3, catching_up=True)],
)
def test_round_trip(disk: Disk, directory: str, state: SavedState) -> None:
    file = QuorumStateFile(disk, directory)
    assert file.load() is None
    file.save(SavedState(leader_epoch=1))
    file.save(state)
    assert file.load() == state
    assert QuorumStateFile(disk, directory).load() == state


def test_is_one_json_line_in_kafkas_keys(disk: Disk, directory: str) -> None:
    QuorumStateFile(disk, directory).save(FULL)
    opened = disk.open(f"{directory}/quorum-state")
    content = opened.read_at(0, opened.size())
    opened.close()
    assert content == (
        b'{"clusterId":"abc","brokerId":1,"leaderId":2,"leaderEpoch":7,"votedId":3,'
        b'"votedDirectoryId":"J8aAPcfLQt2bqs1JT_rMgQ","appliedOffset":12,'
        b'"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],'
        b'"targetVoters":[{"voterId":1},{"voterId":2},{"voterId":4}],"data_version":1}\n'
    )


def test_reads_both_forms_of_stock_kafka(disk: Disk, directory: str) -> None:
    version_0 = (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    version_1 = (
        b'{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"J8aAPcfLQt2bqs1JT_rMgQ",'
        b'"data_version":1}\nanything'
    )
    file = QuorumStateFile(disk, directory)
    write_atomically(disk, f"{directory}/quorum-state", version_0)
    assert file.load() == SavedState(leader_epoch=2, leader_id=1, current_voters=(1,))
    write_atomically(disk, f"{directory}/quorum-state", version_1)
    assert file.load() == SavedState(leader_epoch=2, voted_id=1, voted_directory_id=DIRECTORY_ID)


def changed(**fields: object) -> bytes:
    good: dict[str, object] = {"leaderId": 1, "leaderEpoch": 2, "votedId": -1, "data_version": 1}
    return json.dumps({key: value for key, value in {**good, **fields}.items() if value != "gone"}).encode()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 60_000, "not JSON"),
        (b"[1]", "not a JSON object"),
        (changed(data_version="gone"), "data_version is missing"),
        (changed(data_version=2), "data_version 2 is not supported"),
        (changed(data_version=True), "data_version True is not supported"),
        (changed(leaderEpoch="gone"), "leaderEpoch is null"),
        (changed(leaderEpoch=-1), "leaderEpoch is -1, expected a number from 0"),
        (changed(leaderEpoch=2**31), "leaderEpoch is 2147483648"),
        (changed(votedId=-2), "votedId is -2"),
        (changed(votedId=True), "votedId is true"),
        (changed(leaderId="1"), 'leaderId is "1"'),
        (changed(votedDirectoryId="short"), "votedDirectoryId: 'short' is not a Kafka Uuid"),
        (changed(votedDirectoryId=5), "votedDirectoryId is 5"),
        (changed(clusterId=5), "clusterId is 5"),
        (changed(clusterId="a\ud800"), "unpaired surrogate"),
        (changed(clusterId="x" * 32768), "clusterId has more than 32767 bytes"),
        (changed(currentVoters={}), "currentVoters is {}"),
        (changed(currentVoters=[1]), r"currentVoters is \[1\]"),
        (changed(targetVoters=[{"voterId": -1}]), "voterId is -1"),
    ],
)
def test_rejects_unknown_contents(disk: Disk, directory: str, content: bytes, fault: str) -> None:
    write_atomically(disk, f"{directory}/quorum-state", content)
    with pytest.raises(CorruptLog, match=f"{directory}/quorum-state: .*{fault}"):
        QuorumStateFile(disk, directory).load()


def test_vote_can_be_saved_once_on_a_full_disk(memory_disk: SimulatedDisk, directory: str) -> None:
    file = QuorumStateFile(memory_disk, directory)
    file.save(FULL)
    memory_disk.capacity = memory_disk.used_bytes()
    file.save(FULL._replace(leader_epoch=8))
    assert file.load() == FULL._replace(leader_epoch=8)


def test_without_free_space_the_old_state_is_kept(memory_disk: SimulatedDisk, directory: str) -> None:
    file = QuorumStateFile(memory_disk, directory)
    file.save(FULL)
    memory_disk.remove(f"{directory}/quorum-state.tmp")
    memory_disk.capacity = 0
    with pytest.raises(DiskFull):
        file.save(FULL._replace(leader_epoch=8))
    assert file.load() == FULL


def test_flag_must_be_a_boolean(disk: Disk, directory: str) -> None:
    file = QuorumStateFile(disk, directory)
    file.save(SavedState(catching_up=True))
    content = disk.open(f"{directory}/quorum-state").read_at(0, 1000).rstrip(b"\0")
    write_atomically(disk, f"{directory}/quorum-state", content.replace(b"true", b"1"))
    with pytest.raises(CorruptLog, match="true or false"):
        file.load()


def test_longest_cluster_id_is_loaded(disk: Disk, directory: str) -> None:
    write_atomically(disk, f"{directory}/quorum-state", changed(clusterId="x" * 32767))
    assert QuorumStateFile(disk, directory).load().cluster_id == "x" * 32767
