"""`quorumd pipeline plan` of unevenly grown clusters: seconds, and moves compared with the minimum.

Brokers are added and removed at once. A port of `kafka-reassign-partitions --generate` plans the same clusters: it
assigns all partitions from scratch, regardless of the current assignment. The time is that from arrays in memory to
the tables of a plan, in one process, with one warm-up and several runs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from quorumd.pipeline.plan.arrays import Ints, Rows, not_in
from quorumd.pipeline.plan.files import Figures
from quorumd.pipeline.plan.planner import make_plan
from quorumd.pipeline.plan.planning import Changes, broker_index_of
from quorumd.pipeline.plan.state import ClusterState
from scripts.bench.summary import print_missed, update_json
from scripts.skewed_states import skewed_state

RACKS = 6
SKEW = 0.25
LEADERS_LIMIT = 1.01


@dataclass(frozen=True, slots=True)
class Case:
    """The size of a cluster, and the number of added and removed brokers."""

    partitions: int
    """With three replicas each."""
    brokers: int
    added: int
    removed: int
    limit_s: float


CASES = (Case(100_000, 300, 20, 10, 3.0), Case(1_000_000, 1_000, 50, 20, 10.0))


@dataclass(frozen=True, slots=True)
class Generated:
    """The plan of Kafka's algorithm for the same cluster."""

    moves: int
    max_to_mean: float


@dataclass(frozen=True, slots=True)
class PlanFigures:
    """The figures of one case."""

    case: Case
    seconds: float
    """The median of all runs."""
    cpu_seconds: float
    """The CPU time of the run with the median time."""
    figures: Figures
    generated: Generated

    @property
    def ratio(self) -> float:
        """The ratio of the moves of Kafka's algorithm to the moves of the plan."""
        return self.generated.moves / max(self.figures["moves"], 1)

    def missed(self) -> list[str]:
        after, name = self.figures["after"], f"{self.case.partitions:,} x {self.case.brokers:,}"
        found = []
        if self.seconds > self.case.limit_s:
            found.append(f"{name}: {self.seconds:.1f} s, the target is {self.case.limit_s:g} s")
        if self.figures["moves"] != self.figures["lower_bound"]:
            found.append(
                f"{name}: {self.figures['moves']:,} moves, the bound is {self.figures['lower_bound']:,}"
            )
        if after["replicas_max"] - after["replicas_min"] > 1:
            found.append(f"{name}: {after['replicas_min']} to {after['replicas_max']} replicas per broker")
        if after["rack_violations"]:
            found.append(f"{name}: {after['rack_violations']} partitions have two replicas in a rack")
        if after["leaders_max_to_mean"] > LEADERS_LIMIT:
            found.append(f"{name}: a broker leads {after['leaders_max_to_mean']} times the mean")
        return found


@dataclass(slots=True)
class PlanReport:
    package: str
    """Description of the measured package."""
    cases: list[PlanFigures]

    def missed(self) -> list[str]:
        """Return a sentence per missed target."""
        return [sentence for case in self.cases for sentence in case.missed()]

    def as_json(self) -> dict[str, Any]:
        cases = [asdict(case) | {"ratio": case.ratio} for case in self.cases]
        return {"quorumd": self.package, "cases": cases, "missed": self.missed()}

    def write_json(self, path: Path) -> None:
        update_json(path, {"pipeline_plan": self.as_json()})

    def print(self, console: Console) -> None:
        table = Table(
            title="Plans in one process: moves and the fewest possible; replicas per broker; the ratio of the most "
            "leaders to the mean; the ratio of the moves of --generate to the moves of the plan",
            box=box.SIMPLE_HEAD,
        )
        headings = ("partitions", "brokers", "wall s", "CPU s", "moves", "fewest")
        more = ("per broker", "leaders", "--generate")
        for heading in (*headings, *more):
            table.add_column(heading, justify="right", no_wrap=True)
        for each in self.cases:
            case, after = each.case, each.figures["after"]
            table.add_row(
                f"{case.partitions:,}",
                f"{case.brokers:,} +{case.added} -{case.removed}",
                f"{each.seconds:.2f}",
                f"{each.cpu_seconds:.2f}",
                f"{each.figures['moves']:,}",
                f"{each.figures['lower_bound']:,}",
                f"{after['replicas_min']:,}-{after['replicas_max']:,}",
                f"{after['leaders_max_to_mean']:.4f}",
                f"{each.ratio:.1f}x",
            )
        console.print(table)
        console.print(f"quorumd: {self.package}")
        print_missed(console, self.missed())


def measure_plans(
    package: str, rounds: int, echo: Callable[[str], None], cases: Sequence[Case] = CASES
) -> PlanReport:
    """Run all cases one after the other."""
    return PlanReport(package, [_measure(case, rounds, echo) for case in cases])


def _measure(case: Case, rounds: int, echo: Callable[[str], None]) -> PlanFigures:
    echo(f"plan: {case.partitions:,} partitions on {case.brokers:,} brokers")
    racks = [f"rack-{n % RACKS}" for n in range(case.brokers)]
    state = skewed_state(case.partitions, racks, seed=1, skew=SKEW)
    removed = np.random.default_rng(2).choice(case.brokers, case.removed, replace=False)
    added = {case.brokers + n: f"rack-{n % RACKS}" for n in range(case.added)}
    changes = Changes(frozenset(removed.tolist()), added)
    made = make_plan(state, changes)
    times = []
    for _ in range(rounds):
        began, cpu = time.perf_counter(), time.process_time()
        make_plan(state, changes)
        times.append((time.perf_counter() - began, time.process_time() - cpu))
        echo(f"{times[-1][0]:.2f} s, {times[-1][1]:.2f} s of CPU")
    middle = statistics.median_low(seconds for seconds, _ in times)
    cpu_seconds = next(cpu for seconds, cpu in times if seconds == middle)
    return PlanFigures(case, middle, cpu_seconds, made.figures, generated(state, changes))


def generated(state: ClusterState, changes: Changes) -> Generated:
    """Assign all partitions to the remaining and added brokers from scratch, as Kafka's algorithm does."""
    broker_index = broker_index_of(state, changes)
    alive = broker_index.alive
    ring = _alternating(alive, broker_index.rack_of[alive])
    rows = _laid_out(ring, broker_index.rack_of, state.topics, state.partitions, state.replicas.shape[1])
    moves = int(not_in(broker_index.ids[rows].astype(np.int32), state.replicas).sum())
    held = np.bincount(rows.ravel(), minlength=len(broker_index.ids))[alive]
    return Generated(moves, round(float(held.max() / held.mean()), 4))


def _alternating(brokers: Ints, racks: Ints) -> Ints:
    """Return brokers in an order that alternates racks."""
    within = np.zeros(len(brokers), np.int64)
    for rack in np.unique(racks):
        of_rack = racks == rack
        within[of_rack] = np.arange(of_rack.sum())
    return brokers[np.lexsort((racks, within))]


def _laid_out(ring: Ints, rack_of: Ints, topics: Ints, partitions: Ints, width: int) -> Rows:
    """Assign replicas round-robin from a random start per topic, with followers shifted to other racks."""
    random = np.random.default_rng(3)
    count, racks = len(ring), len(np.unique(rack_of[ring]))
    start = random.integers(0, count, int(topics.max()) + 1)[topics]
    shift = random.integers(0, count, int(topics.max()) + 1)[topics] + partitions // count
    first = (partitions + start) % count
    rows = np.full((len(topics), width), -1, np.int32)
    rows[:, 0] = ring[first]
    step = np.zeros(len(topics), np.int64)
    for column in range(1, width):
        todo = np.arange(len(topics))
        while len(todo):
            place = (first[todo] + 1 + (shift[todo] * racks + step[todo]) % (count - 1)) % count
            step[todo] += 1
            broker = ring[place]
            taken = (rack_of[rows[todo, :column]] == rack_of[broker][:, None]).any(1)
            rows[todo[~taken], column] = broker[~taken]
            todo = todo[taken]
    return rows
