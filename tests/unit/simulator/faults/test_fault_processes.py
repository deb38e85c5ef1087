"""Processes without processor time, and clocks that jump."""

from random import Random

from quorumd.simulator.cluster import Machine
from quorumd.simulator.faults.clocks import ClockJump
from quorumd.simulator.faults.crashes import ShutDown
from quorumd.simulator.faults.processes import PausedProcess, SlowProcess, StalledEventLoop
from tests.support.simulator.simulated_cluster import elect, leader_of, make_cluster, run


def pause(machine: Machine, until_ms: float) -> None:
    assert machine.process is not None
    machine.process.busy_until_ms = until_ms


def test_paused_leader_is_replaced_and_learns_it_when_resumed() -> None:
    cluster = make_cluster(voters=3)
    old = elect(cluster)
    assert old.node is not None
    epoch, ends = old.node.engine.epoch, cluster.heap.now_ms + 8000.0
    pause(old, ends)
    run(cluster, 7999.0)
    leader = leader_of(cluster)
    assert leader is not None
    assert leader is not old
    assert old.node.engine.is_leader  # it had no time to notice
    assert old.node.engine.epoch == epoch
    run(cluster, 1000.0)
    assert not old.node.engine.is_leader
    assert old.node.engine.epoch > epoch


def test_paused_process_resumes_by_itself() -> None:
    cluster = make_cluster(voters=1)
    machine = elect(cluster)
    PausedProcess().inject(cluster, Random(1))
    assert machine.process is not None
    assert machine.process.busy_until_ms > cluster.heap.now_ms
    waited = cluster.heap.waited
    run(cluster, 10_000.0)
    assert cluster.heap.waited > waited
    assert machine.process.busy_until_ms < cluster.heap.now_ms


def test_stalled_event_loop_resumes_by_itself() -> None:
    cluster = make_cluster(voters=1)
    machine = elect(cluster)
    StalledEventLoop().inject(cluster, Random(1))
    waited = cluster.heap.waited
    run(cluster, 20_000.0)
    assert cluster.heap.waited > waited
    assert machine.process is not None
    assert machine.process.busy_until_ms < cluster.heap.now_ms


def test_processor_time_of_transfers_slows_a_cluster_down() -> None:
    quick = make_cluster(voters=3)
    slow = make_cluster(voters=3, request_ms=5.0, byte_ms=0.01, slowness=4.0)
    assert elect(quick).node is not None
    assert elect(slow).node is not None
    assert quick.heap.waited == 0
    assert slow.heap.waited > 0
    assert {machine.slowness for machine in quick.machines.values()} == {1.0}
    assert 1.0 < max(machine.slowness for machine in slow.machines.values()) <= 4.0


def test_signal_waits_for_a_paused_process_and_kill_does_not() -> None:
    cluster = make_cluster(voters=2)
    elect(cluster)
    for machine in cluster.machines.values():
        pause(machine, cluster.heap.now_ms + 100.0)
    cluster.shut_down(1)
    cluster.kill(2)
    run(cluster, 99.0)
    assert [machine.node_id for machine in cluster.running()] == [1]
    assert cluster.counters["exits with code 0"] == 0
    run(cluster, 10_000.0, lambda: cluster.counters["exits with code 0"] > 0)
    assert cluster.counters["exits with code 0"] == 1


def test_slow_process_takes_long_for_a_while() -> None:
    cluster = make_cluster(voters=1)
    machine = elect(cluster)
    SlowProcess().inject(cluster, Random(5))
    assert machine.process is not None
    assert machine.process.callback_ms > 0.0
    run(cluster, 4000.0)
    assert cluster.heap.waited > 0
    assert machine.process.callback_ms == 0.0


def test_wall_clock_jumps_both_ways_and_the_monotonic_one_does_not() -> None:
    cluster = make_cluster(voters=1)
    machine = elect(cluster)
    assert machine.node is not None
    clock = machine.node.clock
    jumps = []
    for seed in range(40):
        wall, monotonic = clock.wall_ms(), clock.now_ms()
        ClockJump().inject(cluster, Random(seed))
        jumps.append(clock.wall_ms() - wall)
        assert clock.now_ms() == monotonic
    assert min(jumps) < -86_400_000
    assert max(jumps) > 86_400_000
    assert min(map(abs, jumps)) < 60_000
    assert min(map(abs, jumps)) >= 1000


def test_one_node_or_all_at_once_are_shut_down_and_restarted() -> None:
    cluster = make_cluster(voters=3)
    elect(cluster)
    fault, at_once = ShutDown(), set()
    for seed in range(40):
        run(cluster, 10_000.0, lambda: len(cluster.running()) == 3)
        elect(cluster)
        fault.inject(cluster, Random(seed))
        at_once.add(sum(machine.stopping for machine in cluster.running()))
        run(cluster, 1000.0)
    assert at_once == {1, 3}
    assert cluster.counters["exits with code 0"] >= 40
    run(cluster, 10_000.0, lambda: len(cluster.running()) == 3)
    assert len(cluster.running()) == 3
