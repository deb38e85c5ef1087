"""A plan of `quorumd pipeline plan` in the hands of the stock kafka-reassign-partitions."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.interop.stock_tools.claims import expect
from tests.interop.stock_tools.tools import REASSIGN, TOPICS, StockTools
from tests.support.processes.daemons import Cluster, run_quorumd, wait_for

Assignment = dict[str, list[int]]
"""Replicas by partition, the preferred leader first."""


class StockPlan:
    """The folder of a plan for a cluster, and the tool, which asks the brokers at `bootstrap`."""

    def __init__(self, tools: StockTools, cluster: Cluster, bootstrap: str, folder: Path) -> None:
        self._tools = tools
        self._cluster = cluster
        self._bootstrap = bootstrap
        self._folder = folder

    @property
    def waves(self) -> list[Path]:
        return sorted((self._folder / "waves").iterdir())

    @property
    def rollbacks(self) -> list[Path]:
        """In the order of their waves: taken back is the last one first."""
        return sorted((self._folder / "rollback").iterdir())

    def make(self, *options: str) -> dict[str, Any]:
        """The figures of a new plan."""
        made: dict[str, Any] = self._rows("make", *options, "--out", self._folder)
        return made

    def target(self) -> Assignment:
        """Of all waves."""
        return {name: replicas for wave in self.waves for name, replicas in assignment(wave).items()}

    def execute(self) -> None:
        """All waves; raises ClaimBroken unless both sides say that all is done."""
        for wave, way_back in zip(self.waves, self.rollbacks, strict=True):
            self.begin(wave, way_back)
            self.wait_for(wave)
        self._check("as_planned", 0)

    def roll_back(self) -> None:
        """All waves; raises ClaimBroken unless both sides say that all is as before."""
        for wave, way_back in reversed(list(zip(self.waves, self.rollbacks, strict=True))):
            self.begin(way_back, wave)
            self.wait_for(way_back)
        self._check("as_before", 1)

    def begin(self, wave: Path, way_back: Path, *options: str) -> int:
        """How many partitions the tool starts to move; what it prints to be saved is what `way_back` has."""
        said = self.reassign("--execute", wave, *options)
        printed = re.search(r"^Current partition replica assignment\n\n(.*)$", said, re.M)
        saved = assignment_of(printed[1]) if printed else said
        expect(f"the way back from {wave}", saved, assignment(way_back))
        started = re.search(r"^Successfully started partition reassignments? for (\S+)$", said, re.M)
        names = started[1].split(",") if started else [said]
        expect("started", set(names), set(assignment(wave)))
        return len(names)

    def wait_for(self, wave: Path) -> None:
        """Until --verify calls every partition of it complete."""
        wanted = set(assignment(wave))

        def is_complete() -> bool:
            said = self.reassign("--verify", wave)
            return set(named(said, r"Reassignment of partition (\S+) is completed\.")) == wanted

        wait_for(f"--verify to call {wave.name} complete", is_complete)

    def listed(self, by_controllers: bool = False) -> dict[str, tuple[set[int], set[int]]]:
        """What is added and what removed, by partition; told by brokers, or by daemons as controllers."""
        controllers = ("--bootstrap-controller", self._cluster.bootstrap)
        whom = controllers if by_controllers else ("--bootstrap-server", self._bootstrap)
        said = self._tools.run(REASSIGN, *whom, "--list")
        lines = re.findall(
            r"^(\S+): replicas: \S+\.(?: adding: (\S+)\.)?(?: removing: (\S+)\.)?$", said, re.M
        )
        return {name: (_ids(adding), _ids(removing)) for name, adding, removing in lines}

    def throttled(self) -> set[str]:
        """Topics that have replicas with a throttle."""
        said = self._tools.run(TOPICS, "--bootstrap-server", self._bootstrap, "--describe")
        return set(re.findall(r"^Topic: (\S+)\s.*\.replication\.throttled\.replicas=", said, re.M))

    def reassign(self, action: str, wave: Path, *options: str) -> str:
        """What the tool prints. Raises ClaimBroken where it fails or complains."""
        return self._tools.run(REASSIGN, *self._arguments(action, wave, options))

    def attempt(self, action: str, wave: Path) -> subprocess.CompletedProcess[str]:
        return self._tools.ask(REASSIGN, *self._arguments(action, wave, ()))

    def _arguments(self, action: str, wave: Path, options: Iterable[str]) -> tuple[str | Path, ...]:
        return ("--bootstrap-server", self._bootstrap, action, "--reassignment-json-file", wave, *options)

    def _check(self, column: str, code: int) -> None:
        """`plan verify` counts all partitions of each wave in this column."""
        rows = self._rows("verify", self._folder, code=code)
        expect(
            f"partitions {column} by plan verify",
            [row[column] for row in rows],
            [row["partitions"] for row in rows],
        )

    def _rows(self, command: str, *options: str | Path, code: int = 0) -> Any:
        arguments = ("pipeline", "plan", command, *options, "--bootstrap-server", self._cluster.bootstrap)
        done = run_quorumd(*arguments, "--output", "json")
        expect(f"exit code of quorumd {' '.join(map(str, arguments))}: {done.stderr}", done.returncode, code)
        return json.loads(done.stdout)


def assignment(file: Path) -> Assignment:
    """What Kafka's reassignment JSON in a file makes of partitions."""
    return assignment_of(file.read_text())


def assignment_of(text: str) -> Assignment:
    return {
        f"{each['topic']}-{each['partition']}": each["replicas"] for each in json.loads(text)["partitions"]
    }


def named(said: str, line: str) -> list[str]:
    """The partitions in all lines of this pattern."""
    return re.findall(f"^{line}$", said, re.M)


def _ids(text: str) -> set[int]:
    return {int(part) for part in text.split(",") if part}
