"""One simulated run: a safety phase with faults, then a liveness phase without.

In the safety phase faults are injected, clients are active, and every invariant is checked after every event. In the
liveness phase there are no faults, and at least a majority of the voters runs: within a bounded time a stable leader
must be elected, writes must succeed again, and every running node must have all committed records. Finally the
clients' histories are checked.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from functools import partial
from itertools import pairwise

from quorumd.node.state.state_machine import SLICE_MS, SLICE_RECORDS
from quorumd.simulator.brokers.fleet import BrokerFleet
from quorumd.simulator.brokers.nodes.fleet import BrokerNodes
from quorumd.simulator.brokers.population import BrokerPopulation
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.cluster import Cluster, Machine
from quorumd.simulator.environment.disk import PowerLost
from quorumd.simulator.environment.entropy import Streams
from quorumd.simulator.environment.event_heap import EventHeap, Process
from quorumd.simulator.explain.timeline import Timeline
from quorumd.simulator.faults import ALL_FAULTS
from quorumd.simulator.inspection.acl_probe import AclProbe
from quorumd.simulator.inspection.apply_probe import ApplyProbe
from quorumd.simulator.inspection.election_probe import ElectionProbe
from quorumd.simulator.inspection.inspector import QUORUM_STATE, Inspector
from quorumd.simulator.inspection.leader_probe import LeaderProbe
from quorumd.simulator.inspection.pause_probe import PauseProbe
from quorumd.simulator.inspection.readiness_probe import ReadinessProbe
from quorumd.simulator.inspection.wire_checks import WireChecks
from quorumd.simulator.liveness.administration import LastReads, require_credentials
from quorumd.simulator.liveness.convergence import (
    LastVoterChange,
    describe,
    require_checkpoints,
    require_idle_records,
    sealed_segments,
)
from quorumd.simulator.liveness.growth import require_bounded_disks, require_bounded_memory
from quorumd.simulator.liveness.membership import (
    JOINED,
    REGISTERED,
    LastUnregistrations,
    require_recorded,
    unregistered,
    without_vote,
)
from quorumd.simulator.liveness.peer_logins import require_renewals
from quorumd.simulator.liveness.stable_leadership import StableLeadership
from quorumd.simulator.options import SimulationOptions
from quorumd.simulator.profiles.draw import draw_options
from quorumd.simulator.report import Report, Violation
from quorumd.simulator.voter_sets import have_majorities
from quorumd.simulator.workload import History, SimulatedClient
from quorumd.simulator.workload.background import BackgroundWorkload

MAX_EVENTS_PER_INSTANT = 20_000
"""More callbacks than this at one instant of virtual time mean an endless loop."""
MAX_BOOT_DELAY_MS = 100.0
LIVENESS_WRITES = 3
RESPONSE_TIMEOUT_MS = 500.0
"""Maximum response time of a node once the cluster has recovered."""
RARE_FAULTS_MS = 4000.0
"""Mean time between faults above which the time without a leader, and the time to apply records, are bounded."""
PROGRESS = "a healthy majority makes progress"
NEED_A_QUORUM = (PROGRESS, LastVoterChange.invariant)
CHECK_INTERVAL_MS = 50.0
"""Interval at which the liveness phase checks its conditions."""


class Simulation:
    """One run. `Simulation(seed).run()` is the main interface."""

    def __init__(
        self, seed: int, options: SimulationOptions | None = None, timeline: Timeline | None = None
    ) -> None:
        streams = Streams(seed)
        self._streams = streams
        self._seed = seed
        self._options = options or draw_options(seed)
        self._heap = EventHeap()
        self._inspector = Inspector(tuple(range(1, self._options.voters + 1)))
        self._cluster = Cluster(self._heap, streams, self._options, self._inspector)
        self._readiness = ReadinessProbe(self._cluster, self._inspector.readiness)
        self._pauses = PauseProbe(self._cluster)
        self._elections = ElectionProbe(self._cluster)
        self._backlogs = ApplyProbe(self._cluster)
        self._leaders = LeaderProbe(self._cluster)
        self._acls = AclProbe()
        self._has_rare_faults = self._options.fault_interval_ms >= RARE_FAULTS_MS
        self._wire = WireChecks(self._cluster)
        self._cluster.network.on_write = self._wire.written
        self._brokers = self._make_brokers()
        self._background = BackgroundWorkload(self._cluster, streams, self._inspector)
        self._history = History(self._inspector.acknowledged, self._inspector.read)
        self._history.on_read = self._wire.read_completed
        # Separate streams: fewer machines or less time change neither the times nor the kinds of faults.
        self._schedule = streams.stream("fault schedule")
        self._faults = [fault for fault in ALL_FAULTS if fault.name in self._options.faults]
        self._injecting = bool(self._faults)
        self._stable_leadership: StableLeadership | None = None
        self._moment_ms = -1.0
        self._moment_began = 0
        self._clients = [
            self._make_client(number, streams) for number in range(self._options.workload.clients)
        ]
        for machine in self._cluster.machines.values():
            self._inspector.watch(machine)
        self._drawn_faults = 0
        self._injected: list[tuple[int, float, str]] = []
        self._timeline = timeline
        if timeline is not None:
            timeline.attach(self._heap, self._cluster, self._history)

    def run(self) -> Report:
        """Run to the end, or to the first violation."""
        violations: tuple[Violation, ...] = ()
        try:
            for node_id in self._cluster.machines:
                delay_ms = self._streams.stream("boot", node_id).random() * MAX_BOOT_DELAY_MS
                self._heap.call_later(delay_ms, partial(self._cluster.boot, node_id), b"boot")
            for client in self._clients:
                client.start()
            if self._brokers is not None:
                self._brokers.start()
            self._background.start()
            self._schedule_fault()
            self._run_until(self._options.safety_ms)
            self._require_liveness()
            self._history.judge()
        except InvariantViolation as violation:
            if violation.invariant in NEED_A_QUORUM and self._is_quorum_lost():
                self._cluster.counters["quorums lost"] += 1
            else:
                violations = (Violation(self._heap.now_ms, violation.invariant, violation.text),)
        if self._timeline is not None:
            self._timeline.look()
            self._timeline.ended(violations)
        return Report(
            self._seed,
            self._options,
            self._heap.trace_hash(),
            self._heap.now_ms,
            self._heap.events,
            violations,
            self._counters(),
            tuple(self._injected),
            self._drawn_faults,
        )

    def call_at(self, time_ms: float, look: Callable[[], None]) -> None:
        """Schedule a call at a virtual time, before `run`; the call changes only the trace."""
        self._heap.call_later(time_ms, look, b"look")

    def stored_files(self) -> dict[int, dict[str, bytes]]:
        """Return the current files of each machine by node id and path, as a process would read them, without
        machines that an operator runs with a wrong directory."""
        machines = self._cluster.machines.values()
        return {m.node_id: m.disk.contents() for m in machines if m.set_aside is None}

    def draws_hash(self) -> str:
        """Return a hash of all random draws, equal for equal code, seed and options (`Streams.draws_hash`)."""
        return self._streams.draws_hash()

    # ---- running

    def _run_until(self, until_ms: float) -> None:
        while self._step(until_ms):
            pass

    def _step(self, until_ms: float) -> bool:
        heap = self._heap
        try:
            if not heap.step(until_ms):
                return False
        except PowerLost:
            pass  # Handled below, as if the node's code had caught it.
        except InvariantViolation:
            raise
        except Exception as error:
            process = heap.touched.name if heap.touched is not None else "the simulator"
            text = "".join(traceback.format_exception(error))
            raise InvariantViolation("no unexpected errors", f"{process}: {error!r}\n{text}") from error
        self._check_time_advances()
        self._check_pauses()
        touched = heap.touched
        if touched is not None and touched.node_id >= 0:
            machine = self._cluster.machines[touched.node_id]
            if machine.process is touched and not machine.disk.has_power:
                self._cluster.lost_power(machine)
            # A node that exits may have committed and responded before, in the same event. A node that shuts down
            # gracefully has closed its log and was checked before.
            elif touched.alive and not (machine.exiting and machine.stopping):
                self._inspector.look(machine, heap.ended_ms)
                self._pauses.look(machine)
                self._elections.look(machine)
                if self._has_rare_faults:
                    self._backlogs.look(machine)
                if self._options.access_ms:
                    self._acls.look(machine)
                if self._cluster.broker_nodes is not None:
                    self._cluster.broker_nodes.look(machine)
                if self._brokers is not None and machine.node is not None and machine.node.engine.is_leader:
                    self._brokers.observation.quorum_leader_ran(machine.node.engine.epoch)
        self._readiness.look()
        if self._has_rare_faults:
            self._leaders.look()
        if self._brokers is not None:
            self._brokers.observation.look()
        if self._stable_leadership is not None:
            self._stable_leadership.look()
        if self._timeline is not None:
            # After the inspector, whose log mirrors it reads, and after processes without power have ended.
            self._timeline.look()
        return True

    def _check_pauses(self) -> None:
        """Check that a node that applies, loads or undoes records serves requests in between. Not checked with broker
        models, which may request thousands of records at once."""
        options, heap = self._options, self._heap
        worked_ms = heap.ended_ms - heap.now_ms - heap.transfer_ms
        at_once = 2 * (options.kept_records_at_once + options.workload.clients) + SLICE_RECORDS
        if (
            not options.brokers.count
            and worked_ms > 2 * SLICE_MS + at_once * options.record_ms * options.slowness
        ):
            process = self._heap.touched.name if self._heap.touched is not None else "the simulator"
            raise InvariantViolation(
                "a busy node keeps serving requests", f"{process} was busy for {worked_ms:.0f} ms"
            )

    def _check_time_advances(self) -> None:
        heap = self._heap
        if heap.now_ms != self._moment_ms:
            self._moment_ms, self._moment_began = heap.now_ms, heap.events
        elif heap.events - self._moment_began > MAX_EVENTS_PER_INSTANT:
            process = heap.touched.name if heap.touched is not None else "the simulator"
            raise InvariantViolation("virtual time advances", f"{process} schedules work without end")

    def _schedule_fault(self) -> None:
        if self._faults:
            delay = self._schedule.random() * 2 * self._options.fault_interval_ms
            self._heap.call_later(delay, self._inject_fault, b"fault")

    def _inject_fault(self) -> None:
        if not self._injecting:
            return
        weights = [self._options.faults[fault.name] for fault in self._faults]
        (fault,) = self._schedule.choices(self._faults, weights)
        number = self._drawn_faults
        self._drawn_faults += 1
        wanted = self._options.only_faults is None or number in self._options.only_faults
        if wanted and fault.available(self._cluster):
            self._cluster.counters[f"fault: {fault.name}"] += 1
            self._injected.append((number, self._heap.now_ms, fault.name))
            if self._timeline is not None:
                self._timeline.fault(number, fault.name)
            # A separate stream per fault: omitting one does not change the draws of the others.
            fault.inject(self._cluster, self._streams.stream("fault", number))
        self._schedule_fault()

    # ---- the liveness phase

    def _require_liveness(self) -> None:
        """End all faults and require that a majority of the voters becomes a working quorum."""
        self._end_faults()
        if self._is_quorum_lost():
            self._cluster.counters["quorums lost"] += 1
            return
        core = self._choose_core()
        for node_id in self._cluster.machines:
            if node_id in core:
                self._cluster.boot(node_id)
            else:
                self._cluster.retire(node_id)
        self._stable_leadership = StableLeadership(self._cluster, core)
        for client in self._clients:
            client.read_share = 0.5
        acknowledged = self._history.acknowledged_writes
        began_ms, incarnations = self._heap.now_ms, self._incarnations(core)
        deadline = self._heap.now_ms + self._options.liveness_ms
        while self._history.acknowledged_writes < acknowledged + LIVENESS_WRITES:
            self._wait(deadline, f"no writes succeeded with nodes {core} running")
        for client in self._clients:
            client.running = False
        self._background.stop()
        if self._brokers is not None:
            self._require_settled(self._brokers, deadline)
        while not self._is_whole(core):
            self._wait(deadline, f"nodes {core} did not agree on the committed records")
        while text := self._readiness.unready(core):
            self._wait(deadline, f"not all voters among nodes {core} were ready: {text}")
        self._require_membership(core, self._heap.now_ms + self._options.liveness_ms)
        self._require_clean_state(began_ms, set(self._incarnations(core).items()) & set(incarnations.items()))
        if self._options.idle_interval_ms:
            self._require_idle_records()
        if self._cluster.voters_changed and not self._options.auto_join:
            random = self._streams.stream("last voter change")
            LastVoterChange(self._cluster, random, self._run_until, partial(self._is_whole, core)).require()

    def _is_quorum_lost(self) -> bool:
        """Whether a voter set has lost too many disks. A lost disk may count as active for a fetch timeout, in which
        another voter may be removed, or the lost one added."""
        cluster = self._cluster
        return cluster.voters_changed and not self._options.auto_join and not have_majorities(cluster)

    def _end_faults(self) -> None:
        self._injecting = False
        self._cluster.repair()
        if self._brokers is not None:
            self._brokers.end_faults()
        if self._options.record_ms and self._streams.stream("last kill").random() < 0.5:
            # Nodes that restart must apply the whole log again.
            for machine in self._cluster.running():
                self._cluster.kill(machine.node_id)

    def _require_clean_state(self, began_ms: float, incarnations: set[tuple[str, int]]) -> None:
        """Require that nodes report the settings of administrators, respond to requests, and keep no more data than
        needed."""
        if self._options.configs_ms or self._brokers is not None:
            LastReads(self._cluster, self._inspector.administration, self._run_until).require()
        self._background.require_settled(self._run_until)
        require_credentials(self._cluster)
        sealed = sealed_segments(self._cluster)
        self._require_responses(began_ms, incarnations)
        require_checkpoints(self._cluster, sealed)
        require_renewals(self._cluster, self._run_until)
        require_bounded_memory(self._cluster)
        require_bounded_disks(self._cluster, self._inspector.committed, self._run_until)

    def _require_membership(self, core: list[int], deadline: float) -> None:
        """Require that nodes register again, and that with auto join former voters become voters again."""
        for missing, invariant in ((unregistered, REGISTERED), (without_vote, JOINED)):
            while text := missing(self._cluster, core):
                self._wait(deadline, text, invariant)
        require_recorded(self._cluster)
        if self._options.registers:
            random = self._streams.stream("last unregistrations")
            LastUnregistrations(self._cluster, random, self._run_until).require()
        while not self._is_whole(core):
            self._wait(deadline, f"nodes {core} did not agree on the committed records")

    def _require_settled(self, brokers: BrokerPopulation, deadline: float) -> None:
        """Require that brokers acknowledge records again and then, without new ones, that all pending work ends."""
        acknowledged = brokers.acknowledged
        while brokers.can_write() and brokers.acknowledged < acknowledged + LIVENESS_WRITES:
            text = f"no records were acknowledged: {brokers.missing()}"
            self._wait(deadline, text, "brokers make progress")
        brokers.end_traffic()
        while brokers.missing():
            self._wait(deadline, brokers.missing(), "brokers make progress")

    def _require_idle_records(self) -> None:
        """Require that the log of the idle cluster grows by one record per idle interval."""
        brokers, deadline = self._brokers, self._heap.now_ms + self._options.liveness_ms
        if brokers is not None:
            brokers.stop_background_requests()
            # A broker whose session ended while the leader changed is fenced only now, and then registers again.
            self._run_until(self._heap.now_ms + 2.0 * self._options.brokers.session_timeout_ms)
            while brokers.missing():
                self._wait(deadline, brokers.missing(), "brokers make progress")
        while not all(client.is_idle for client in self._clients):
            self._wait(deadline, "not all operations of clients ended")
        committed = self._inspector.committed
        interval_ms = self._options.idle_interval_ms
        require_idle_records(interval_ms, self._cluster, self._run_until, lambda: committed.end_offset)

    def _require_responses(self, began_ms: float, incarnations: set[tuple[str, int]]) -> None:
        """Require that every client that waits for one of these processes gets a response soon.

        A request may have been forwarded to a leader that is gone, which takes a request timeout between nodes.
        """
        hosts = {host for host, _ in incarnations}
        waiting = [(client, client.waits_for) for client in self._clients]
        self._run_until(self._heap.now_ms + 2.0 * self._options.election_timeout_ms + RESPONSE_TIMEOUT_MS)
        for client, waits_for in waiting:
            if waits_for is None or client.waits_for != waits_for:
                continue
            host, since_ms = waits_for
            if host in hosts and since_ms > began_ms:
                waited_ms = self._heap.now_ms - since_ms
                raise InvariantViolation(
                    "requests get a response", f"a client has waited for {host} for {waited_ms:.0f} ms"
                )

    def _incarnations(self, node_ids: list[int]) -> dict[str, int]:
        """Return the incarnation that is running on each host."""
        machines = [self._cluster.machines[node_id] for node_id in node_ids]
        return {machine.host: machine.incarnation for machine in machines}

    def _choose_core(self) -> list[int]:
        """Choose the nodes of the liveness phase: all, or a minimal majority of the voters and some observers.

        If the voters were changed, all are chosen, since a voter change waits for its target voters.

        Some voters do not count for the majority. A voter with an empty log, while another voter has started one,
        does not grant votes until it has caught up, unless its quorum-state shows that it took part in the first
        election (hole 40 of the KIP-595 draft). A voter whose disk was replaced is no longer a voter.
        """
        random = self._streams.stream("core")
        machines, voters = list(self._cluster.machines), list(self._cluster.voters)
        begun = [machine.mirror.batches[:1] for machine in self._cluster.machines.values()]
        first = self._inspector.committed.batches[:1] or next((log for log in begun if log), [])
        counting = [
            voter
            for voter in voters
            if (machine := self._cluster.machines[voter]).directory_number == 0
            and (machine.durable_log.holds(first) == len(first) or _remembers_its_vote(machine))
        ]
        majority = len(voters) // 2 + 1
        # With `quorum.voters` alone, all of them must run to found the quorum.
        unfounded = not first and not self._options.initial_controllers
        # Any of the brokers may be needed by a partition.
        unfounded |= bool(self._cluster.broker_ids)
        if unfounded or self._cluster.voters_changed or random.random() < 0.5 or len(counting) < majority:
            return machines
        core = random.sample(counting, majority)
        observers = [node_id for node_id in machines if node_id not in voters]
        return sorted(core + [node_id for node_id in observers if random.random() < 0.5])

    def _wait(self, deadline: float, text: str, invariant: str = PROGRESS) -> None:
        if self._heap.now_ms >= deadline:
            roles = "; ".join(describe(machine) for machine in self._cluster.machines.values())
            raise InvariantViolation(invariant, f"{text} for {self._options.liveness_ms:.0f} ms: {roles}")
        self._run_until(min(deadline, self._heap.now_ms + CHECK_INTERVAL_MS))

    def _is_whole(self, core: list[int]) -> bool:
        """Whether all follow one leader with equal logs and high watermarks, and no voter change is in progress."""
        nodes = [self._cluster.machines[node_id].node for node_id in core]
        states = {
            (node.engine.epoch, node.engine.leader_id, node.log.end_offset, node.engine.high_watermark)
            for node in nodes
            if node is not None
        }
        if None in nodes or len(states) != 1:
            return False
        ((_, leader_id, end_offset, high_watermark),) = states
        if leader_id not in core or end_offset != high_watermark:
            return False
        leader = self._cluster.machines[leader_id].node
        return leader is not None and leader.engine.voters.target is None

    def _counters(self) -> dict[str, int]:
        history, committed = self._history, self._inspector.committed
        counters = {
            "elections": self._inspector.leaders.elections,
            "committed batches": len(committed.batches),
            "committed records": committed.end_offset,
            "different snapshots": self._inspector.snapshots.checked,
            **history.counters(),
            **self._background.counters(),
            "waits for a busy process": self._heap.waited,
            "majorities that waited for a leader": self._leaders.elections,
        }
        if self._cluster.stock_voters:
            leaders = [leader in self._cluster.stock_voters for leader in self._inspector.leaders.leaders]
            counters["epochs led by stock voters"] = sum(leaders)
            counters["leads handed back"] = sum(before and not after for before, after in pairwise(leaders))
        if self._brokers is not None:
            counters |= self._brokers.counters()
        return counters | dict(sorted(self._cluster.counters.items()))

    def _make_brokers(self) -> BrokerPopulation | None:
        cluster, options, committed = self._cluster, self._options.brokers, self._inspector.committed.batches
        brokers: BrokerPopulation
        if options.count:
            brokers = cluster.brokers = BrokerFleet(cluster, options, committed)
        elif cluster.broker_ids:
            brokers = cluster.broker_nodes = BrokerNodes(cluster, options, committed)
        else:
            return None
        brokers.observation.administration = self._inspector.administration
        return brokers

    def _make_client(self, number: int, streams: Streams) -> SimulatedClient:
        process = Process(f"client-{number}")
        return SimulatedClient(
            number,
            self._heap,
            self._cluster.network.host(f"10.0.1.{number}", process),
            process,
            streams.stream("client", number),
            self._options.workload,
            self._history,
            self._cluster.addresses(),
        )


def _remembers_its_vote(machine: Machine) -> bool:
    """Whether a voter's durable quorum-state shows that its empty log is not the result of a replaced disk."""
    data = machine.disk.durable_bytes(QUORUM_STATE, 0, 1 << 16)
    state = json.loads(data.partition(b"\n")[0]) if data else {}
    return state.get("leaderEpoch", 0) > 0 and not state.get("catchingUp", False)
