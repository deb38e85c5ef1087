"""Plans of quorumd that the stock kafka-reassign-partitions executes on Kafka's own brokers with records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tests.interop.stock_tools.claims import ClaimBroken, Step, expect
from tests.interop.stock_tools.stock_plan import Assignment, StockPlan, assignment, named
from tests.interop.stock_tools.traffic import Traffic
from tests.support.plan.placement import placed
from tests.support.processes.daemons import Cluster, wait_for

LEAVES = "103"
MOVE_LIMIT = "40"
"""The maximum number of moves per wave, so that there are several waves and the leader is killed between them."""
THROTTLE = "1"
"""The throttle in bytes per second, with which no replica catches up during the test."""


class Plans:
    """Claims about two plans that drain a broker.

    The first plan moves the partitions with records and is cancelled; the second moves all partitions and is rolled
    back.
    """

    def __init__(self, cluster: Cluster, trial: StockPlan, plan: StockPlan, traffic: Traffic) -> None:
        self._cluster = cluster
        self._trial = trial
        self._plan = plan
        self._traffic = traffic
        self._before: Assignment = {}

    def steps(self) -> list[Step]:
        return [
            ("--verify reports no move as complete before it is started", self.not_begun),
            ("--execute rejects a truncated plan and a plan with an unknown broker", self.damaged),
            ("--execute --throttle starts a plan and prints the content of the rollback file", self.begin),
            ("--list shows its moves with --bootstrap-server and --bootstrap-controller", self.listed),
            ("--verify reports all moves as in progress", self.in_progress),
            ("--cancel restores every replica and leaves no throttle", self.cancel),
            (
                "all waves complete, and --verify and `plan verify` agree, while the leader is killed",
                self.execute,
            ),
            ("the rollback files, in reverse order, restore every replica", self.roll_back),
        ]

    def not_begun(self) -> str:
        self._before = placed(self._cluster)
        self._trial.make("--remove", LEAVES, "--topics", self._traffic.topic)
        (wave,) = self._trial.waves
        output = self._trial.reassign("--verify", wave)
        names = named(output, r"There is no active reassignment of partition (\S+), but .*")
        expect("not started", set(names), set(assignment(wave)))
        expect("completed", named(output, ".* is completed.*"), [])
        return f"no active reassignment of {len(names)} partitions"

    def damaged(self) -> str:
        (wave,) = self._trial.waves
        whole = wave.read_text()
        unknown = json.loads(whole)
        unknown["partitions"][0]["replicas"][0] = 999
        damaged = wave.parents[1] / "damaged.json"
        for text in (whole[: len(whole) // 2], json.dumps(unknown)):
            damaged.write_text(text)
            done = self._trial.attempt("--execute", damaged)
            if done.returncode == 0:
                raise ClaimBroken(f"a damaged plan was executed: {done.stdout}")
        expect("replicas after rejected plans", placed(self._cluster), self._before)
        return done.stdout.strip().splitlines()[0]

    def begin(self) -> str:
        (wave,), (way_back,) = self._trial.waves, self._trial.rollbacks
        return f"{self._trial.begin(wave, way_back, '--throttle', THROTTLE)} partitions"

    def listed(self) -> str:
        (wave,) = self._trial.waves
        moves = {
            name: (set(replicas) - set(self._before[name]), set(self._before[name]) - set(replicas))
            for name, replicas in assignment(wave).items()
        }
        expect("moves listed by brokers", self._trial.listed(), moves)
        expect("moves listed by controllers", self._trial.listed(by_controllers=True), moves)
        return f"{len(moves)} moves, each with its added and removed replicas"

    def in_progress(self) -> str:
        (wave,) = self._trial.waves
        output = self._trial.reassign("--verify", wave, "--preserve-throttles")
        names = named(output, r"Reassignment of partition (\S+) is still in progress\.")
        expect("in progress", set(names), set(assignment(wave)))
        expect("topics with a throttle", self._trial.throttled(), {self._traffic.topic})
        return f"{len(names)} partitions of a topic with the throttle"

    def cancel(self) -> str:
        (wave,) = self._trial.waves
        output = self._trial.reassign("--cancel", wave)
        names = named(output, r"Successfully cancelled partition reassignments for: (\S+)")
        expect("cancelled", set(",".join(names).split(",")), set(assignment(wave)))
        expect("remaining moves", self._trial.listed(), {})
        expect("replicas after the cancel", placed(self._cluster), self._before)
        expect("topics with a throttle", self._trial.throttled(), set())
        return f"{len(self._before)} partitions as before"

    def execute(self) -> str:
        self._plan.make("--remove", LEAVES, "--move-limit", MOVE_LIMIT)
        with self._traffic.producing(), self._leader_killed():
            self._plan.execute()
        target = self._plan.target()
        expect("replicas", placed(self._cluster), self._before | target)
        moved = f"{len(target)} partitions in {len(self._plan.waves)} waves"
        return f"{moved}; {self._traffic.check()}"

    def roll_back(self) -> str:
        with self._traffic.producing():
            self._plan.roll_back()
        expect("replicas after the rollback", placed(self._cluster), self._before)
        return f"{len(self._before)} partitions as before; {self._traffic.check()}"

    @contextmanager
    def _leader_killed(self) -> Iterator[None]:
        """Kill the leader as soon as a partition has been moved, and restart it."""
        with ThreadPoolExecutor(1) as threads:
            killed = threads.submit(self._kill_leader)
            yield
            killed.result()

    def _kill_leader(self) -> None:
        wait_for("a move", lambda: placed(self._cluster) != self._before)
        leader = self._cluster.leader()
        leader.kill()
        self._cluster.leader(besides=leader.node_id)
        leader.start()
        self._cluster.wait_until_level()
