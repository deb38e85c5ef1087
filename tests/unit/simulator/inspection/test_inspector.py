"""Checkers run after every event that changed what they observe, and only then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from random import Random

import pytest

from quorumd.errors import FlushFailed
from quorumd.simulator.checkers import CommittedDataIsImmutable, Observation
from quorumd.simulator.checkers.base import APPLIED, EVERYTHING, FETCHES, HIGH_WATERMARK, LEADERSHIP, LOG
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process
from quorumd.simulator.inspection.durable_files import DurableFiles
from quorumd.simulator.inspection.inspector import Inspector, _View
from quorumd.simulator.options import SimulationOptions
from quorumd.simulator.simulation import Simulation
from quorumd.simulator.workload import WorkloadOptions
from tests.support.simulator.simulated_cluster import elect, make_cluster, run

PARTS = {
    LEADERSHIP: ("epoch", "leader_id", "is_leader", "role"),
    LOG: ("log", "removed", "appended", "voters", "previous_voters"),
    HIGH_WATERMARK: ("high_watermark",),
    APPLIED: ("applied_offset", "image_hash", "opaque_records"),
    FETCHES: ("now_ms", "awake_since_ms", "fetch_timeout_ms", "last_fetches_ms_ago"),
}
PART_OF = {name: part for part, names in PARTS.items() for name in names}
# A change of the voters is seen with the next look at fetches, which does not wait for one.
PART_OF["voters"] |= FETCHES
ALWAYS = ("node_id", "incarnation")
OPTIONS = SimulationOptions(
    voters=3,
    observers=1,
    safety_ms=6000.0,
    fault_interval_ms=800.0,
    faults={"isolated leader": 1.0, "power loss": 1.0, "kill": 1.0},
    workload=WorkloadOptions(think_ms=(5.0, 30.0)),
)


class Reading:
    """An Observation that records which fields are read."""

    def __init__(self, seen: Observation, note: Callable[[str], None]) -> None:
        self._seen = seen
        self._note = note

    def __getattr__(self, name: str) -> object:
        self._note(name)
        return getattr(self._seen, name)


def inspector_of(simulation: Simulation) -> Inspector:
    return simulation._inspector


def test_every_field_of_an_observation_is_observed() -> None:
    assert set(PART_OF) | set(ALWAYS) == set(Observation.__slots__)
    assert sum(PARTS) == EVERYTHING


def test_checkers_read_only_fields_of_their_aspects() -> None:
    simulation = Simulation(1, OPTIONS)
    read: defaultdict[str, set[str]] = defaultdict(set)
    aspects = {}
    for checker in inspector_of(simulation).checkers:
        name = type(checker).__name__
        aspects[name] = checker.aspects

        def observed(seen: Observation, check=checker.observed, note=read[name].add) -> None:  # type: ignore[no-untyped-def] # what the loop has
            check(Reading(seen, note))

        checker.observed = observed  # type: ignore[method-assign] # to read along
    assert simulation.run().ok
    assert {"epoch", "log", "high_watermark", "image_hash", "last_fetches_ms_ago"} <= set().union(
        *read.values()
    )
    for name, attributes in read.items():
        missing = [each for each in attributes if not PART_OF.get(each, EVERYTHING) & aspects[name]]
        assert missing == [], f"{name} would not run again when that changes"


def test_no_change_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After every event the last observation of a node equals its state."""
    simulation = Simulation(2, OPTIONS)
    inspector = inspector_of(simulation)
    known: dict[tuple[int, int], dict[str, object]] = {}
    looks, events = 0, 0
    for checker in inspector.checkers[:1]:
        checker.aspects = EVERYTHING

        def observed(seen: Observation) -> None:
            nonlocal looks
            looks += 1
            known[seen.node_id, seen.incarnation] = {
                "epoch": seen.epoch,
                "leader_id": seen.leader_id,
                "role": seen.role,
                "high_watermark": seen.high_watermark,
                "log": b"".join(batch.data for batch in seen.log[-2:]),
                "end_offset": seen.log[-1].end_offset if seen.log else 0,
                "image_hash": seen.image_hash,
                "opaque_records": seen.opaque_records,
            }

        checker.observed = observed  # type: ignore[method-assign] # instead of the invariant
    look = inspector.look

    def look_twice(machine, now_ms: float) -> None:  # type: ignore[no-untyped-def] # as Inspector.look
        nonlocal events
        look(machine, now_ms)
        node, engine = machine.node, machine.node.engine
        last = known[machine.node_id, machine.incarnation]
        events += 1
        assert last["epoch"] == engine.epoch
        assert last["leader_id"] == engine.leader_id
        assert last["role"] == engine.role.value
        assert last["high_watermark"] == engine.high_watermark
        assert last["end_offset"] == node.log.end_offset
        if machine.mirror.batches:
            first = machine.mirror.batches[-2:][0].base_offset
            read = node.log.read(first, 1 << 20)
            assert last["log"] in (
                read,
                read + node.log.read(machine.mirror.batches[-1].base_offset, 1 << 20),
            )
        if not engine.is_leader:
            assert last["image_hash"] == node.state_machine.image.hash

    monkeypatch.setattr(inspector, "look", look_twice)
    assert simulation.run().ok
    assert 0 < looks < events / 2


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(EventHeap(), Random(1))
    disk.mount(Process("node", 1, 1))
    return disk


def write(disk: SimulatedDisk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write_at(0, data)
    file.sync()


def test_small_files_are_reported_once_new_content_is_durable(disk: SimulatedDisk) -> None:
    news: list[bytes] = []
    files = DurableFiles(disk, {"/a": news.append})
    disk.after_sync = files.synced
    write(disk, "/a.tmp", b"one")
    disk.rename("/a.tmp", "/a")
    assert news == [], "its name is not durable"
    disk.sync_directory("/")
    assert news == [b"one"]
    disk.sync_directory("/")
    write(disk, "/b", b"other")
    assert news == [b"one"]
    in_place = disk.open("/a")
    in_place.write_at(0, b"two")
    assert news == [b"one"]
    in_place.sync()
    assert news == [b"one", b"two"]
    write(disk, "/a.tmp", b"two")
    disk.rename("/a.tmp", "/a")
    disk.sync_directory("/")
    assert news == [b"one", b"two"]
    files.forget()
    disk.sync_directory("/")
    assert news == [b"one", b"two", b"two"]


def test_small_file_made_durable_by_a_crash_is_reported_with_the_next_sync(disk: SimulatedDisk) -> None:
    for seed in range(20):
        disk = SimulatedDisk(EventHeap(), Random(seed))
        disk.mount(Process("node", 1, 1))
        news: list[bytes] = []
        disk.after_sync = DurableFiles(disk, {"/a": news.append}).synced
        write(disk, "/a.tmp", b"one")
        disk.rename("/a.tmp", "/a")
        disk.lose_power()
        disk.mount(Process("node", 1, 2))
        survived = disk.exists("/a")
        assert news == []
        write(disk, "/b", b"")
        assert news == ([b"one"] if survived else [])


def test_high_watermark_that_a_failed_append_leaves_behind_is_not_observed() -> None:
    cluster = make_cluster(idle_interval_ms=100.0)
    leader = elect(cluster)
    follower = next(machine for machine in cluster.running() if machine is not leader)
    assert follower.node is not None
    assert follower.process is not None
    follower.disk.capacity = 1  # A node may fail with it.
    follower.process.busy_until_ms = cluster.heap.now_ms + 1000.0
    log, append = follower.node.log, follower.node.log.append

    def fail_with_committed_records(data: bytes, end_offset: int) -> None:
        if node.engine.high_watermark > log.end_offset:
            raise FlushFailed("the append failed")
        append(data, end_offset)

    log.append = fail_with_committed_records  # type: ignore[method-assign]  # amid the effects of one event
    node, process = follower.node, follower.process
    run(cluster, 5000.0, lambda: follower.exiting)
    assert node.engine.high_watermark > log.end_offset
    view = _View(follower, process, CommittedDataIsImmutable())
    assert view.look(node, EVERYTHING, cluster.heap.now_ms).high_watermark == log.end_offset
