"""Every fault can happen, has its effect, and is survived by the cluster."""

from __future__ import annotations

from collections import Counter

import pytest

from quorumd.simulator.brokers.options import BrokerOptions
from quorumd.simulator.environment.disk_latency import DiskLatency
from quorumd.simulator.explain.timeline import Timeline, window
from quorumd.simulator.faults import ALL_FAULTS
from quorumd.simulator.faults.transfers import INTERRUPTIONS
from quorumd.simulator.options import (
    BROKER_FAULT_NAMES,
    BROKER_NODE_FAULT_NAMES,
    FAULT_NAMES,
    MOVE_FAULT_NAMES,
    PEER_LOGIN_FAULT_NAMES,
    RARE_BROKER_FAULT_NAMES,
    RARE_BROKER_NODE_FAULT_NAMES,
    RARE_FAULT_NAMES,
    SimulationOptions,
)
from quorumd.simulator.peer_logins import MECHANISMS, PeerLogins
from quorumd.simulator.profiles.draw import draw_options
from quorumd.simulator.report import Report
from quorumd.simulator.simulation import Simulation
from quorumd.simulator.workload import WorkloadOptions


def run_with(fault: str, seed: int = 1, **more: object) -> Report:
    options: dict[str, object] = {
        "faults": {fault: 1.0},
        "observers": 1,
        "safety_ms": 6000.0,
        "disk": DiskLatency(usual_ms=(2.0, 10.0)),
        "fault_interval_ms": 300.0,
        "segment_bytes": 8000,
        "workload": WorkloadOptions(longest_padding=3000),
    }
    return Simulation(seed, SimulationOptions(**(options | more))).run()  # type: ignore[arg-type]  # mixed values


def test_every_fault_has_its_place() -> None:
    rare = RARE_FAULT_NAMES + PEER_LOGIN_FAULT_NAMES + RARE_BROKER_FAULT_NAMES
    of_broker_nodes = BROKER_NODE_FAULT_NAMES + RARE_BROKER_NODE_FAULT_NAMES + MOVE_FAULT_NAMES
    names = tuple(fault.name for fault in ALL_FAULTS)
    assert names == FAULT_NAMES + BROKER_FAULT_NAMES + rare + of_broker_nodes


@pytest.mark.parametrize("name", FAULT_NAMES + RARE_FAULT_NAMES)
def test_happens_and_is_survived(name: str) -> None:
    happened = 0
    needed: dict[str, object] = {}
    if "snapshot" in name:
        needed = {"snapshot_bytes": 1000, "maintenance_interval_ms": 200.0}
    elif name == "unregistration":
        needed = {"registers": True}
    for seed in (1, 2):
        report = run_with(name, seed, **needed)
        assert report.ok, str(report)
        assert report.counters["acknowledged writes"] > 0
        happened += report.counters[f"fault: {name}"]
    assert happened >= 3


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_logins_are_refused_and_renewed(mechanism: str) -> None:
    options = SimulationOptions(
        faults=dict.fromkeys(("refused login", "broken link"), 1.0),
        fault_interval_ms=100.0,
        peer_logins=PeerLogins(mechanism, 1500, failure_delay_ms=50),
    )
    simulation = Simulation(1, options)
    report = simulation.run()
    assert report.ok, str(report)
    assert report.counters["fault: refused login"] > 0
    nodes = [machine.node for machine in simulation._cluster.running() if machine.node is not None]
    assert sum(node.statistics.failed_authentications for node in nodes) > 0


def run_with_brokers(fault: str, seed: int, **more: object) -> Report:
    brokers = BrokerOptions(count=4, session_timeout_ms=700.0, heartbeat_ms=150.0, **more)  # type: ignore[arg-type]  # as above
    return run_with(fault, seed, brokers=brokers, fault_interval_ms=900.0, safety_ms=9000.0)


@pytest.mark.parametrize("name", BROKER_FAULT_NAMES)
def test_happens_to_brokers_and_is_survived(name: str) -> None:
    happened = acknowledged = 0
    for seed in (1, 2):
        report = run_with_brokers(name, seed)
        assert report.ok, str(report)
        acknowledged += report.counters["records acknowledged"]
        happened += report.counters[f"fault: {name}"]
    assert happened >= 3
    assert acknowledged > 0


EFFECTS_ON_BROKERS = {
    "broker crash": ("brokers that lost nothing", "brokers that lost what was not flushed"),
    "broker disk loss": ("brokers that lost everything",),
    "broker shutdown": ("clean ends of brokers",),
    "controlled shutdown": ("clean ends of brokers",),
    "paused broker": ("waits for a busy process",),
    "slow broker": ("waits for a busy process",),
    "isolated broker": ("records unknown",),
    "delayed ISR change": (
        "delayed ISR change: response is lost",
        "delayed ISR change: joining replica is fenced",
        "delayed ISR change: joining replica restarts",
    ),
}


@pytest.mark.parametrize("name", BROKER_FAULT_NAMES)
def test_has_its_effect_on_brokers(name: str) -> None:
    counters: Counter[str] = Counter()
    for seed in range(3, 10):
        counters.update(run_with_brokers(name, seed).counters)
        if all(counters[effect] for effect in EFFECTS_ON_BROKERS[name]):
            return
    raise AssertionError(counters)


def test_administrators_and_producers_are_busy() -> None:
    counters: Counter[str] = Counter()
    for seed in (1, 2, 3):
        report = run_with_brokers("broker crash", seed, raises_min_isr=True)
        assert report.ok, str(report)
        counters.update(report.counters)
    done = [name for name, count in counters.items() if name.endswith(": NONE") and count]
    assert {name.split(":")[0] for name in done} >= {
        "CreateTopics",
        "AlterPartitionReassignments",
        "ElectLeaders",
    }
    assert counters["joins of an ISR"] > 3
    assert counters["records read"] > 0


def test_one_of_several_directories_is_cordoned() -> None:
    counters: Counter[str] = Counter()
    for seed in (1, 2):
        report = run_with_brokers("broker shutdown", seed, cordon_ms=200.0, log_directories=2, admin_ms=60.0)
        assert report.ok, str(report)
        counters.update(report.counters)
    assert counters["cordons of one of several directories"] > 3
    assert counters["CreateTopics: NONE"] > 0


EFFECTS = {
    "power loss": ("power losses", "lost sectors", "lost names"),
    "power loss in a disk call": ("power losses", "lost sectors", "lost names"),
    "failed sync": ("exits with code 4",),
    "failed write": ("exits with code 4",),
    "shutdown": ("exits with code 0",),
    "paused process": ("waits for a busy process",),
    "slow process": ("waits for a busy process",),
    "corrupt segment": ("damage noticed",),
    "replaced disk": ("disks replaced", "voters lost"),
    "wrong cluster id": ("wrong directories refused",),
    "swapped directories": ("wrong directories refused",),
    "copied directory": ("wrong directories refused",),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_has_its_effect(name: str) -> None:
    counters: Counter[str] = Counter()
    for seed in range(1, 8):
        counters.update(run_with(name, seed, fault_interval_ms=400.0).counters)
        if all(counters[effect] for effect in EFFECTS[name]):
            break
    assert {effect: counters[effect] > 0 for effect in EFFECTS[name]} == dict.fromkeys(EFFECTS[name], True)


BUSY = WorkloadOptions(clients=6, think_ms=(2.0, 20.0), read_share=0.2, longest_padding=3000)


def test_power_losses_in_a_sync_tear_writes_whatever_the_disk() -> None:
    torn = 0
    for seed in range(1, 9):
        report = run_with("power loss in a disk call", seed, safety_ms=10_000.0, workload=BUSY)
        assert report.ok, str(report)
        torn += report.counters["torn writes"]
    assert torn > 0


def test_power_losses_tear_and_reorder_what_a_slow_disk_had_not_synced() -> None:
    counters: Counter[str] = Counter()
    for seed in range(1, 5):
        slow = DiskLatency(usual_ms=(10.0, 40.0))
        report = run_with(
            "power loss", seed, disk=slow, fault_interval_ms=1000.0, safety_ms=10_000.0, workload=BUSY
        )
        assert report.ok, str(report)
        counters.update(report.counters)
    assert counters["torn writes"] > 0
    assert counters["overtaking sectors"] > 0


SAFETY_MS = 5000.0


def test_cluster_without_faults_elects_once_and_serves_everything() -> None:
    timeline = Timeline()
    report = Simulation(1, SimulationOptions(safety_ms=SAFETY_MS), timeline).run()
    assert report.ok, str(report)
    # Later the leader may be one of those that the liveness phase does without.
    elected = [entry.text for entry in window(timeline.entries, 0.0, SAFETY_MS) if "leader in" in entry.text]
    assert len(elected) == 1
    without_response = report.counters["operations"] - (
        report.counters["acknowledged writes"] + report.counters["completed reads"]
    )
    # Those that began before there was a leader, and one a client that was under way at the end.
    assert without_response <= 6


def test_directories_are_lost_and_brokers_unregistered() -> None:
    counters: Counter[str] = Counter()
    for seed in (1, 2):
        operators = {"unregistrations": 1500.0}
        report = run_with_brokers(
            "lost directory", seed, log_directories=3, operators=operators, admin_ms=60.0
        )
        assert report.ok, str(report)
        counters.update(report.counters)
    assert counters["lost directories"] > 3
    assert counters["unregistrations: UnregisterBroker: NONE"] > 0
    assert counters["brokers that lost their place"] > 0
    assert counters["records acknowledged"] > 0


def test_wiped_voters_of_a_moved_quorum_start() -> None:
    report = Simulation(3, draw_options(3, "bootstrap once")).run()
    assert report.ok, str(report)
    assert report.counters["quorums moved"] > 0
    assert report.counters["fault: wiped disks"] > 0


def test_interrupted_installations_are_completed_at_the_next_start() -> None:
    counters: Counter[str] = Counter()
    for seed in range(1, 20):
        report = Simulation(seed, draw_options(seed, "interrupted installations")).run()
        assert report.ok, str(report)
        counters.update(report.counters)
        if counters["installations completed at a start"] > 1:
            break
    assert counters["installations interrupted"] > 2
    assert counters["installations completed at a start"] > 1


def test_interrupted_transfers_are_repeated() -> None:
    kinds = {f"transfers interrupted: {each.__name__.strip('_')}" for each in INTERRUPTIONS}
    counters: Counter[str] = Counter()
    for seed in range(1, 40):
        report = Simulation(seed, draw_options(seed, "interrupted transfers")).run()
        assert report.ok, str(report)
        counters.update(report.counters)
        if kinds <= counters.keys():
            break
    assert kinds <= counters.keys()


def test_copies_are_recovered_in_plain_swarm() -> None:
    seeds = (seed for seed in range(100) if draw_options(seed).copies_ms)
    report = Simulation(seed := next(seeds), draw_options(seed)).run()
    assert report.ok, str(report)
    assert report.counters["copies recovered"] > 0


def test_write_that_a_failed_sync_drops_on_its_leader_is_committed_by_the_others() -> None:
    """Its leader has it neither in memory nor on its disk, and acknowledges it before it notices the failure."""
    options = SimulationOptions(
        faults={"failed sync": 1.0},
        fault_interval_ms=150.0,
        safety_ms=1000.0,
        election_timeout_ms=300,
        fetch_timeout_ms=600,
        segment_bytes=600,
        disk=DiskLatency(usual_ms=(5.0, 60.0)),
        workload=WorkloadOptions(longest_padding=3000, think_ms=(3.0, 20.0)),
    )
    for seed in (4, 5, 6):
        report = Simulation(seed, options).run()
        assert report.ok, str(report)
