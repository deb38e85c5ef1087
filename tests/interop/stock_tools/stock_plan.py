"""Plans of `quorumd pipeline plan`, which the stock kafka-reassign-partitions executes."""

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
"""The replicas of partitions, with the preferred leader first."""


class StockPlan:
    """A plan for a cluster in a directory; the tool connects to the brokers at `bootstrap`."""

    def __init__(self, tools: StockTools, cluster: Cluster, bootstrap: str, directory: Path) -> None:
        self._tools = tools
        self._cluster = cluster
        self._bootstrap = bootstrap
        self._directory = directory

    @property
    def waves(self) -> list[Path]:
        return sorted((self._directory / "waves").iterdir())

    @property
    def rollbacks(self) -> list[Path]:
        """Rollback files in the order of their waves; they are executed in reverse."""
        return sorted((self._directory / "rollback").iterdir())

    def make(self, *options: str) -> dict[str, Any]:
        """Create a plan and return its figures."""
        made: dict[str, Any] = self._rows("make", *options, "--out", self._directory)
        return made

    def target(self) -> Assignment:
        """Return the target assignment of all waves."""
        return {name: replicas for wave in self.waves for name, replicas in assignment(wave).items()}

    def execute(self) -> None:
        """Execute all waves. Raises ClaimBroken unless both tools report completion."""
        for wave, way_back in zip(self.waves, self.rollbacks, strict=True):
            self.begin(wave, way_back)
            self.wait_for(wave)
        self._check("done", 0)

    def roll_back(self) -> None:
        """Roll back all waves. Raises ClaimBroken unless both tools report the original assignment."""
        for wave, way_back in reversed(list(zip(self.waves, self.rollbacks, strict=True))):
            self.begin(way_back, wave)
            self.wait_for(way_back)
        self._check("not_begun", 1)

    def begin(self, wave: Path, way_back: Path, *options: str) -> int:
        """Execute a wave, whose printed rollback must equal `way_back`, and return the number of moved partitions."""
        output = self.reassign("--execute", wave, *options)
        printed = re.search(r"^Current partition replica assignment\n\n(.*)$", output, re.M)
        saved = assignment_of(printed[1]) if printed else output
        expect(f"the way back from {wave}", saved, assignment(way_back))
        started = re.search(r"^Successfully started partition reassignments? for (\S+)$", output, re.M)
        names = started[1].split(",") if started else [output]
        expect("started", set(names), set(assignment(wave)))
        return len(names)

    def wait_for(self, wave: Path) -> None:
        """Wait until --verify reports every partition of the wave as completed."""
        wanted = set(assignment(wave))

        def is_complete() -> bool:
            output = self.reassign("--verify", wave)
            return set(named(output, r"Reassignment of partition (\S+) is completed\.")) == wanted

        wait_for(f"--verify to report {wave.name} as complete", is_complete)

    def listed(self, by_controllers: bool = False) -> dict[str, tuple[set[int], set[int]]]:
        """Return the adding and removing replicas by partition, as brokers or controllers list them."""
        controllers = ("--bootstrap-controller", self._cluster.bootstrap)
        server = controllers if by_controllers else ("--bootstrap-server", self._bootstrap)
        output = self._tools.run(REASSIGN, *server, "--list")
        lines = re.findall(
            r"^(\S+): replicas: \S+\.(?: adding: (\S+)\.)?(?: removing: (\S+)\.)?$", output, re.M
        )
        return {name: (_ids(adding), _ids(removing)) for name, adding, removing in lines}

    def throttled(self) -> set[str]:
        """Return the topics with throttled replicas."""
        output = self._tools.run(TOPICS, "--bootstrap-server", self._bootstrap, "--describe")
        return set(re.findall(r"^Topic: (\S+)\s.*\.replication\.throttled\.replicas=", output, re.M))

    def reassign(self, action: str, wave: Path, *options: str) -> str:
        """Run the tool and return its output. Raises ClaimBroken if it fails or prints warnings."""
        return self._tools.run(REASSIGN, *self._arguments(action, wave, options))

    def attempt(self, action: str, wave: Path) -> subprocess.CompletedProcess[str]:
        return self._tools.execute(REASSIGN, *self._arguments(action, wave, ()))

    def _arguments(self, action: str, wave: Path, options: Iterable[str]) -> tuple[str | Path, ...]:
        return ("--bootstrap-server", self._bootstrap, action, "--reassignment-json-file", wave, *options)

    def _check(self, column: str, code: int) -> None:
        """Expect that `plan verify` counts all partitions of each wave in a column."""
        rows = self._rows("verify", self._directory, code=code)
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
    """Parse a file with Kafka's reassignment JSON."""
    return assignment_of(file.read_text())


def assignment_of(text: str) -> Assignment:
    return {
        f"{each['topic']}-{each['partition']}": each["replicas"] for each in json.loads(text)["partitions"]
    }


def named(output: str, line: str) -> list[str]:
    """Return the captured partitions of all lines that match a pattern."""
    return re.findall(f"^{line}$", output, re.M)


def _ids(text: str) -> set[int]:
    return {int(part) for part in text.split(",") if part}
