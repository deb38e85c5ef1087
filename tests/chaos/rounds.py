"""The rounds: inject, keep the clients going, heal, require progress, remember how long nothing was acknowledged."""

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
"""How long a process may take to serve: on a busy machine three at once take their time."""
PROGRESS_S = 15.0
"""Once everything is healed and all nodes serve, a write must be acknowledged within this time."""
SETTLED_S = 60.0
"""Once a write was acknowledged, the voters must be those that were asked for within this time."""
LEVEL_S = 30.0
"""After healing, every node must hold within this time what was committed then."""
FELT_S = 8.0
"""How long a fault that works in its own time is waited for."""


@dataclass(slots=True)
class Round:
    """What one round did. Times are milliseconds since the first one began."""

    number: int
    kinds: list[str]
    what: list[str]
    injected_ms: float
    healed_ms: float = 0.0
    ended_ms: float = 0.0
    progress_ms: float = 0.0
    """From when all was healed and all nodes served, to the first acknowledgement of a write begun afterwards."""
    unavailable_ms: float = 0.0
    """The longest time without an acknowledged write in this round."""
    not_felt: list[str] = field(default_factory=list)
    reassigned_ms: float | None = None
    """How long it took from asking for other voters until these were the voters, where that was asked."""
    kills: int = 0
    """Processes that were killed while the voters changed."""
    told: list[str] = field(default_factory=list)
    """What the operator who asked for other voters had to do again, and why."""


@contextmanager
def client_processes(folder: Path, addresses: list[tuple[str, int]], seed: int) -> Iterator[Histories]:
    """Clients at work, in processes of their own; ended in good order at the end."""
    files = [folder / f"history-{number}.jsonl" for number in range(1, CLIENT_PROCESSES + 1)]
    nodes = [f"{host}:{port}" for host, port in addresses]
    children = []
    try:
        for number, file in enumerate(files, 1):
            arguments = ["--name", f"client-{number}", "--seed", str(seed), "--history", str(file), *nodes]
            with (folder / f"client-{number}.log").open("wb") as output:
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
        raise Anomaly(f"client processes ended with {codes}: see client-*.log in {folder}")


class Chaos(ABC):
    """Rounds on one cluster; what happens in one is the subclass's."""

    def __init__(
        self,
        cluster: ChaosCluster,
        histories: Histories,
        random: Random,
        machine: MachineWatch,
        tell: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._histories = histories
        self._random = random
        self._machine = machine
        self._tell = tell
        self.began_ms = now_ms()
        self.rounds: list[Round] = []

    def run(self, deadline: float, most_rounds: int) -> None:
        """Rounds until one of both is reached; `deadline` is a time.monotonic(). Raises Anomaly."""
        self._wait_for_write(now_ms())
        while time.monotonic() < deadline and len(self.rounds) < most_rounds:
            done = self._round(len(self.rounds) + 1)
            told = "; ".join(f"{kind}: {what}" for kind, what in zip(done.kinds, done.what, strict=True))
            missing = f" (not felt: {', '.join(done.not_felt)})" if done.not_felt else ""
            took = "" if done.reassigned_ms is None else f"  changed in {done.reassigned_ms / 1000:.2f} s"
            self._tell(f"{done.number:4d}  {done.unavailable_ms / 1000:6.2f} s  {told}{missing}{took}")

    @abstractmethod
    def _round(self, number: int) -> Round:
        """One round, in `rounds` from its beginning. Raises Anomaly."""

    def _see_it_work(self, begun: Round, is_settled: Callable[[], bool]) -> None:
        """The end of a round: all is healed, now everything has to go on."""
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
        """How long it took until a write that was called after `since_ms` was acknowledged."""
        patience = Patience(PROGRESS_S, self._machine)
        while True:
            acknowledged_ms = self._histories.first_write_begun_after(since_ms)
            if acknowledged_ms is not None:
                return acknowledged_ms - since_ms
            if patience.is_over:
                self._look_for_dead()
                raise Anomaly(f"no write was acknowledged for {PROGRESS_S:.0f} s after everything was healed")
            self._pause(0.02)

    def _wait_until_all_serve(self) -> None:
        patience = Patience(START_S, self._machine)
        while not all(daemon.serves() for daemon in self._cluster):
            self._look_for_dead()
            if patience.is_over:
                raise Anomaly(f"not all nodes served within {START_S:.0f} s after everything was healed")
            self._pause(0.02)

    def _wait_until_settled(self, is_settled: Callable[[], bool]) -> None:
        """Until the voters are those that there shall be."""
        patience = Patience(SETTLED_S, self._machine)
        while not is_settled():
            if patience.is_over:
                self._look_for_dead()
                raise Anomaly(f"the voters were not those asked for within {SETTLED_S:.0f} s: {self._told()}")
            self._pause(0.02)

    def _wait_until_all_follow(self) -> None:
        """Until every node, voter or not, holds all that was committed when this was called."""
        committed: int | None = None
        patience = Patience(LEVEL_S, self._machine)
        while True:
            told = self._told()
            if told is not None:
                committed = told.high_watermark if committed is None else committed
                if all(told.replicas.get(each, -1) >= committed for each in self._cluster.nodes):
                    return
            if patience.is_over:
                self._look_for_dead()
                raise Anomaly(f"not every node held what was committed below {committed} in time: {told}")
            self._pause(0.02)

    def _told(self) -> Quorum | None:
        """What the leader says of the quorum, None while nobody says to lead."""
        try:
            told = self._cluster.leader(seconds=1).asked()
        except AssertionError:
            return None
        return told if told is not None and told.high_watermark >= 0 else None

    def _look_for_dead(self) -> None:
        for daemon in self._cluster:
            if not daemon.runs:
                code = daemon.wait()
                last = "".join(daemon.said().splitlines(keepends=True)[-5:])
                raise Anomaly(f"node {daemon.node_id} ended by itself with exit code {code}:\n{last}")


class Faults(Chaos):
    """Rounds of one fault, or two."""

    def __init__(
        self,
        cluster: ChaosCluster,
        histories: Histories,
        random: Random,
        machine: MachineWatch,
        tell: Callable[[str], None],
        deck: Deck,
    ) -> None:
        super().__init__(cluster, histories, random, machine, tell)
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
