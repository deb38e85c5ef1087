"""Brokers with several log directories: placement of replicas, and reports to the controller."""

from __future__ import annotations

from quorumd.controller.partition import PartitionId
from quorumd.ids import KafkaUuid
from quorumd.simulator.brokers import directories
from quorumd.simulator.brokers.broker_disk import Disk
from quorumd.simulator.brokers.data_log import DataLog
from tests.support.simulator.broker_views import row

TOPIC, OTHER_TOPIC = KafkaUuid(bytes([9]) * 16), KafkaUuid(bytes([8]) * 16)
IDS = [KafkaUuid(bytes([number]) * 16) for number in (1, 2, 3)]
PARTITIONS = [PartitionId(TOPIC, number) for number in range(6)]


def test_new_log_goes_to_the_directory_with_the_fewest() -> None:
    disk = Disk(IDS)
    for where in PARTITIONS:
        disk.place(where)
    assert [disk.directory_of(where) for where in PARTITIONS] == IDS * 2
    disk.remove(PARTITIONS[1])
    disk.place(PARTITIONS[1])
    assert disk.directory_of(PARTITIONS[1]) == IDS[1]


def test_cordoned_directories_get_no_new_logs_while_there_are_others() -> None:
    disk = Disk(IDS, knows_cordons=True)
    disk.cordoned = {0, 2}
    for where in PARTITIONS:
        disk.place(where)
    assert {disk.directory_of(where) for where in PARTITIONS} == {IDS[1]}
    assert disk.cordoned_ids == [IDS[0], IDS[2]]
    assert not disk.is_cordoned
    disk.cordoned = {0, 1, 2}
    assert disk.is_cordoned
    disk.place(PARTITIONS[0])
    assert disk.directory_of(PARTITIONS[0]) in IDS


def test_brokers_without_cordons_report_none() -> None:
    assert Disk(IDS).cordoned_ids is None
    assert not Disk(IDS).is_cordoned
    assert Disk(IDS, knows_cordons=True).cordoned_ids == []


def test_lost_directories_are_replaced_by_empty_ones_with_new_ids() -> None:
    disk = Disk(IDS[:1])
    disk.place(PARTITIONS[0])
    disk.logs[PARTITIONS[0]] = (DataLog(), 0)
    disk.exchange(IDS[1:])
    assert disk.logs == {}
    assert disk.directory_ids == IDS[1:]


def test_every_misplaced_replica_is_reported_to_the_controller() -> None:
    places = {PARTITIONS[0]: IDS[0], PARTITIONS[1]: IDS[1], PARTITIONS[2]: IDS[1]}
    places[other := PartitionId(OTHER_TOPIC, 0)] = IDS[1]
    known = dict.fromkeys(places, row((1,), replicas=(1,), directories=(IDS[0],)))
    wrong = directories.misplaced_replicas(1, places.__getitem__, known)
    assert wrong == [PARTITIONS[1], PARTITIONS[2], other]
    request = directories.request_of(1, 7, places.__getitem__, [PARTITIONS[0], *wrong])
    reported = {
        directory.id: {
            topic.topic_id: [each.partition_index for each in topic.partitions] for topic in directory.topics
        }
        for directory in request.directories
    }
    assert reported == {IDS[0]: {TOPIC: [0]}, IDS[1]: {TOPIC: [1, 2], OTHER_TOPIC: [0]}}


def test_lost_directory_keeps_its_replicas_until_it_is_replaced() -> None:
    disk = Disk(IDS, knows_cordons=True)
    for where in PARTITIONS:
        disk.place(where)
        disk.logs[where] = DataLog(), 0
    disk.cordoned = {1, 2}
    assert disk.lose(1).keys() == {PARTITIONS[1], PARTITIONS[4]}
    assert disk.logs.keys() == set(PARTITIONS) - {PARTITIONS[1], PARTITIONS[4]}
    assert disk.lost_ids == [IDS[1]]
    assert disk.cordoned_ids == [IDS[2]]
    assert disk.lost_places == [PARTITIONS[1], PARTITIONS[4]]
    assert disk.directory_of(PARTITIONS[1]) == IDS[1]
    new = KafkaUuid(bytes([7]) * 16)
    disk.replace_lost(lambda: new)
    assert disk.directory_ids == [IDS[0], new, IDS[2]]
    assert disk.lost_places == []


def test_new_logs_avoid_lost_directories() -> None:
    disk = Disk(IDS)
    disk.lose(0)
    for where in PARTITIONS[:2]:
        disk.place(where)
    assert [disk.directory_of(where) for where in PARTITIONS[:2]] == IDS[1:]
