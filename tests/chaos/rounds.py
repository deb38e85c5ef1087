"""The rounds of a run: inject faults under load, heal them, require progress, and measure unavailability."""

from __future__ import annotations

import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.chaos.client import now_ms
from tests.chaos.cluster import ChaosCluster
from tests.chaos.faults import Anomaly, Deck
from tests.chaos.history import Histories
from tests.chaos.machine import MachineWatch, Patience
from tests.support.processes.requests import Quorum

CLIENT_PROCESSES = 3
START_S = 60.0
"""Timeout for all nodes to serve after healing, also when several start on a busy machine."""
PROGRESS_S = 15.0
"""Time after all nodes serve within which a new write must be acknowledged."""
SETTLED_S = 60.0
"""Time after this write within which the voters must be the target voters."""
LEVEL_S = 30.0
"""Time after the voters are reached within which every node must have all records committed by then."""
FELT_S = 8.0
"""Timeout for the effect of a fault."""


@dataclass(slots=True)
class Round:
    """The record of a round. Moments are milliseconds since the start of the run's rounds."""

    number: int
    kinds: list[str]
    what: list[str]
    injected_ms: float
    healed_ms: float = 0.0
    ended_ms: float = 0.0
    progress_ms: float = 0.0
    """Time from the moment when all nodes serve to the acknowledgement of a write sent afterwards."""
    unavailable_ms: float = 0.0
    """The longest time without an acknowledged write in this round."""
    not_felt: list[str] = field(default_factory=list)
    """Kinds of faults without an effect."""
    reassigned_ms: float | None = None
    """Duration of the reassignment of voters; None if the round has none."""
    kills: int = 0
    """Number of processes that were killed while the voters changed."""
    retries: list[str] = field(default_factory=list)
    """Failed attempts of the operator to change the voters."""


@contextmanager
def client_processes(directory: Path, addresses: list[tuple[str, int]], seed: int) -> Iterator[Histories]:
    """Start client processes; at the end stop them and read the rest of their histories."""
    files = [directory / f"history-{number}.jsonl" for number in range(1, CLIENT_PROCESSES + 1)]
    nodes = [f"{host}:{port}" for host, port in addresses]
    children = []
    try:
        for number, file in enumerate(files, 1):
            arguments = ["--name", f"client-{number}", "--seed", str(seed), "--history", str(file), *nodes]
            with (directory / f"client-{number}.log").open("wb") as output:
                command = [sys.executable, "-m", "tests.chaos.client", *arguments]
                children.append(subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT))
        histories = Histories(files)
        yield histories
    finally:
        for child in children:
            child.terminate()
        codes = [child.wait(120) for child in children]
    histories.poll()
    if any(codes):
        raise Anomaly(f"client processes ended with {codes}: see client-*.log in {directory}")


class Chaos(ABC):
    """Runs rounds on a cluster; subclasses define a round."""

    def __init__(
        self,
        cluster: ChaosCluster,
        histories: Histories,
        random: Random,
        machine: MachineWatch,
        show: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._histories = histories
        self._random = random
        self._machine = machine
        self._show = show
        self.began_ms = now_ms()
        self.rounds: list[Round] = []

    def run(self, deadline: float, most_rounds: int) -> None:
        """Run rounds until their number or `deadline` (time.monotonic()) is reached. Raises Anomaly."""
        self._wait_for_write(now_ms())
        while time.monotonic() < deadline and len(self.rounds) < most_rounds:
            done = self._round(len(self.rounds) + 1)
            faults = "; ".join(f"{kind}: {what}" for kind, what in zip(done.kinds, done.what, strict=True))
            missing = f" (not felt: {', '.join(done.not_felt)})" if done.not_felt else ""
            took = "" if done.reassigned_ms is None else f"  changed in {done.reassigned_ms / 1000:.2f} s"
            self._show(f"{done.number:4d}  {done.unavailable_ms / 1000:6.2f} s  {faults}{missing}{took}")

    @abstractmethod
    def _round(self, number: int) -> Round:
        """Run one round and add it to `rounds` at its start. Raises Anomaly."""

    def _see_it_work(self, begun: Round, is_settled: Callable[[], bool]) -> None:
        """End a round: require progress after all faults are healed."""
        begun.healed_ms = self._now()
        self._wait_until_all_serve()
        begun.progress_ms = self._wait_for_write(now_ms())
        self._wait_until_settled(is_settled)
        self._wait_until_all_follow()
        self._pause(self._random.uniform(0.2, 0.6))
        self._look_for_dead()
        begun.ended_ms = self._now()
        begun.unavailable_ms = self._histories.longest_gap_ms(
            self.began_ms + begun.injected_ms, self.began_ms + begun.ended_ms
        )

    def _now(self) -> float:
        return now_ms() - self.began_ms

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)
        self._histories.poll()

    def _wait_for_write(self, since_ms: float) -> float:
        """Wait for the acknowledgement of a write called after `since_ms`, and return the time since then."""
        patience = Patience(PROGRESS_S, self._machine)
        while True:
            acknowledged_ms = self._histories.first_write_begun_after(since_ms)
            if acknowledged_ms is not None:
                return acknowledged_ms - since_ms
            if patience.is_over:
                self._look_for_dead()
                raise Anomaly(
                    f"no write was acknowledged for {PROGRESS_S:.0f} s after all faults were healed"
                )
            self._pause(0.02)

    def _wait_until_all_serve(self) -> None:
        patience = Patience(START_S, self._machine)
        while not all(daemon.serves() for daemon in self._cluster):
            self._look_for_dead()
            if patience.is_over:
                raise Anomaly(f"not all nodes served within {START_S:.0f} s after all faults were healed")
            self._pause(0.02)

    def _wait_until_settled(self, is_settled: Callable[[], bool]) -> None:
        """Wait until all faults are settled, in particular until the voters are the target voters."""
        patience = Patience(SETTLED_S, self._machine)
        while not is_settled():
            if patience.is_over:
                self._look_for_dead()
                raise Anomaly(
                    f"the target voters were not reached within {SETTLED_S:.0f} s: {self._quorum()}"
                )
            self._pause(0.02)

    def _wait_until_all_follow(self) -> None:
        """Wait until every node has all records that were committed at the time of the call."""
        committed: int | None = None
        patience = Patience(LEVEL_S, self._machine)
        while True:
            seen = self._quorum()
            if seen is not None:
                committed = seen.high_watermark if committed is None else committed
                if all(seen.replicas.get(each, -1) >= committed for each in self._cluster.nodes):
                    return
            if patience.is_over:
                self._look_for_dead()
                raise Anomaly(f"not every node had all records below {committed} in time: {seen}")
            self._pause(0.02)

    def _quorum(self) -> Quorum | None:
        """Return the quorum as the leader describes it; None without a leader."""
        try:
            seen = self._cluster.leader(seconds=1).describe_quorum()
        except AssertionError:
            return None
        return seen if seen is not None and seen.high_watermark >= 0 else None

    def _look_for_dead(self) -> None:
        for daemon in self._cluster:
            if not daemon.runs:
                code = daemon.wait()
                last = "".join(daemon.log_text().splitlines(keepends=True)[-5:])
                raise Anomaly(f"node {daemon.node_id} ended by itself with exit code {code}:\n{last}")


class Faults(Chaos):
    """Rounds of one or two faults."""

    def __init__(
        self,
        cluster: ChaosCluster,
        histories: Histories,
        random: Random,
        machine: MachineWatch,
        show: Callable[[str], None],
        deck: Deck,
    ) -> None:
        super().__init__(cluster, histories, random, machine, show)
        self._deck = deck

    def _round(self, number: int) -> Round:
        faults = self._deck.draw(self._cluster)
        begun = Round(number, [fault.kind for fault in faults], [], self._now())
        self.rounds.append(begun)
        for fault in faults:
            fault.inject()
        begun.what = [fault.what for fault in faults]
        self._pause(max(fault.pauses_s for fault in faults))
        limit = time.monotonic() + FELT_S
        while not all(fault.is_felt() for fault in faults) and time.monotonic() < limit:
            self._pause(0.05)
        begun.not_felt = [fault.kind for fault in faults if not fault.is_felt()]
        for fault in faults:
            fault.heal()
        self._see_it_work(begun, lambda: all(fault.is_settled() for fault in faults))
        return begun
