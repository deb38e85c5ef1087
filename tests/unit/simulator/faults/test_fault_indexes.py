"""Nodes rebuild damaged indexes, and survive failures at the beginning of a segment."""

from __future__ import annotations

from collections import Counter
from random import Random

from quorumd.log.indexes import SegmentIndexes
from quorumd.simulator.faults import damaged_indexes
from quorumd.simulator.faults.damaged_indexes import FORMATTED, PARTITION, DamagedIndexes
from quorumd.simulator.profiles.draw import draw_options
from quorumd.simulator.simulation import Simulation
from tests.support.simulator.simulated_cluster import elect, make_cluster, run


def test_nodes_with_damaged_indexes_keep_their_records() -> None:
    cluster = make_cluster(1)
    machine = elect(cluster)
    committed = machine.mirror.batches[:]
    files = {".index": b"\x00" * 8, ".timeindex": b"\x00" * 12}
    for seed in range(8):
        for suffix, content in files.items():
            machine.disk.put(f"{PARTITION}/{0:020}{suffix}", content)
        DamagedIndexes().inject(cluster, Random(seed))
        assert machine.process is None
        run(cluster, 5000.0)
        assert elect(cluster) is machine
        assert machine.mirror.batches[: len(committed)] == committed
    assert cluster.counters["damaged index files"] > 8


def test_index_stays_if_the_disk_fails_when_it_is_removed() -> None:
    cluster = make_cluster(1)
    machine = elect(cluster)
    path = f"{PARTITION}/{0:020}.index"
    stays: list[bool] = []

    def remove() -> None:
        damaged_indexes._removed(machine, path, Random(1))
        stays.append(path in machine.disk.contents())

    machine.disk.put(path, b"\x00" * 8)
    cluster.heap.call_later(0.0, machine.disk.fail_change, b"fault")
    for _ in range(2):
        cluster.heap.call_later(0.0, remove, b"fault")
    run(cluster, 1.0)
    assert stays == [True, False]


def test_indexes_of_simulated_nodes_are_damaged_and_segments_fail() -> None:
    counters: Counter[str] = Counter()
    for seed in range(1, 25):
        report = Simulation(seed, draw_options(seed, "damaged indexes")).run()
        assert report.ok, str(report)
        counters.update(report.counters)
        if counters["damaged index files"] > 20 and counters["segments failed"] > 5:
            break
    assert counters["damaged index files"] > 20
    assert counters["segments failed"] > 5


def test_damaged_index_is_not_loaded() -> None:
    indexes = SegmentIndexes(0, 100)
    assert not indexes.load(b"\x7f\xff\xff\xff" * 2, b"", 100)
    assert not indexes.load(b"", b"", 100)
    assert not indexes.load(bytes(7), b"", 100)


def test_snapshot_that_kafka_has_formatted_is_not_needed_once_the_log_has_records() -> None:
    cluster = make_cluster(1, formatted_by_kafka=True)
    machine = elect(cluster)
    path = f"{PARTITION}/{FORMATTED}"
    formatted = machine.disk.contents()[path]
    for seed in range(12):
        run(cluster, 1000.0)
        DamagedIndexes().inject(cluster, Random(seed))
        assert machine.process is None
        run(cluster, 5000.0)
        assert elect(cluster) is machine
    assert machine.disk.contents().get(path) != formatted
