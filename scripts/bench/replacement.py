"""Three voters are replaced by three others under write load: duration, and longest pause of writes.

The voters of six daemons alternate between two disjoint sets. Writers are admin clients with one write in flight; the
pauses include their search for the next leader, as for any user of that client.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from quorumd.client.admin import AdminClient
from quorumd.errors import RequestFailed
from quorumd.protocol.config_resource_type import ConfigResourceType
from scripts.bench.members import Members, voters_of
from scripts.bench.processes import BenchError
from scripts.bench.summary import update_json

SETS = ((0, 1, 2), (3, 4, 5))
WRITERS = 8
VALUE = "x" * 200
STEADY_S = 2.0
"""The time before a replacement that is measured for comparison."""
POLL_S = 0.01
WAIT_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Replacement:
    """The effect of one replacement."""

    took_ms: float
    """Time from the request until the quorum has the new voters and no change in progress."""
    stall_ms: float
    """The longest time between two acknowledged writes, from the request until a second after the end."""
    usual_stall_ms: float
    """The longest time between two acknowledged writes before the request."""
    writes_per_second: float
    """The rate before the request."""
    writes_per_second_meanwhile: float
    """The rate during the replacement."""


@dataclass(slots=True)
class ReplacementReport:
    package: str
    """Description of the measured package."""
    rounds: list[Replacement]

    def as_json(self) -> dict[str, Any]:
        stalls = [each.stall_ms for each in self.rounds]
        took = [each.took_ms for each in self.rounds]
        return {
            "quorumd": self.package,
            "writers": WRITERS,
            "stall_ms": {"p50": statistics.median(stalls), "max": max(stalls)},
            "took_ms": {"p50": statistics.median(took), "max": max(took)},
            "rounds": [asdict(each) for each in self.rounds],
        }

    def missed(self) -> list[str]:
        """Return an empty list: this benchmark has no target."""
        return []

    def write_json(self, path: Path) -> None:
        update_json(path, {"replacement": self.as_json()})

    def print(self, console: Console) -> None:
        title = f"Three voters replaced by three others, {WRITERS} admin clients writing, {len(self.rounds)} times"
        table = Table(title=title, box=box.SIMPLE_HEAD)
        for heading in ("", "median", "largest"):
            table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
        rows = {
            "longest pause of writes, ms": [each.stall_ms for each in self.rounds],
            "longest pause before the replacement, ms": [each.usual_stall_ms for each in self.rounds],
            "duration of the replacement, ms": [each.took_ms for each in self.rounds],
            "writes/s before the replacement": [each.writes_per_second for each in self.rounds],
            "writes/s during the replacement": [each.writes_per_second_meanwhile for each in self.rounds],
        }
        for name, values in rows.items():
            table.add_row(name, f"{statistics.median(values):,.0f}", f"{max(values):,.0f}")
        console.print(table)
        console.print(f"quorumd: {self.package}")


def measure_replacements(
    directory: Path, package: str, rounds: int, echo: Callable[[str], None]
) -> ReplacementReport:
    """Run two replacements per round, there and back. Raises BenchError; all started processes are stopped."""
    shutil.rmtree(directory, ignore_errors=True)
    members = Members(directory.resolve(), len(SETS[0]) + len(SETS[1]), len(SETS[0]), {})
    echo("starting six quorumd daemons, three of them voters")
    try:
        for node_id in (*SETS[0], *SETS[1]):
            members.start(node_id)
        done = asyncio.run(_replacements(members, rounds * 2, echo))
    finally:
        members.stop()
    shutil.rmtree(directory)
    return ReplacementReport(package, done)


async def _replacements(members: Members, count: int, echo: Callable[[str], None]) -> list[Replacement]:
    acknowledged: list[float] = []
    admins = [members.admin() for _ in range(WRITERS)]
    writers = [asyncio.create_task(_write(admin, n, acknowledged)) for n, admin in enumerate(admins)]
    done = []
    try:
        async with members.admin() as operator:
            await _until_voters(operator, SETS[0])
            for number in range(1, count + 1):
                done.append(await _replace(operator, SETS[number % 2], acknowledged))
                echo(
                    f"replacement {number} of {count}: took {done[-1].took_ms:.0f} ms, "
                    f"longest pause of writes {done[-1].stall_ms:.0f} ms"
                )
                if broken := [writer for writer in writers if writer.done()]:
                    broken[0].result()
    except RequestFailed as error:
        raise BenchError(f"while voters were replaced: {error}") from None
    finally:
        for writer in writers:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
        for admin in admins:
            admin.close()
    return done


async def _replace(operator: AdminClient, target: tuple[int, ...], acknowledged: list[float]) -> Replacement:
    acknowledged.clear()
    before = time.perf_counter()
    await asyncio.sleep(STEADY_S)
    requested = time.perf_counter()
    await operator.alter_quorum(target)
    await _until_voters(operator, target)
    reached = time.perf_counter()
    await asyncio.sleep(1.0)
    end = time.perf_counter()
    usual = [moment for moment in acknowledged if moment < requested]
    meanwhile = [moment for moment in acknowledged if requested <= moment < reached]
    return Replacement(
        (reached - requested) * 1000,
        _longest_gap(acknowledged, requested, end) * 1000,
        _longest_gap(acknowledged, before, requested) * 1000,
        len(usual) / (requested - before),
        len(meanwhile) / (reached - requested),
    )


def _longest_gap(acknowledged: list[float], begin: float, end: float) -> float:
    moments = [begin, *(moment for moment in acknowledged if begin < moment < end), end]
    return max(after - before for before, after in pairwise(moments))


async def _until_voters(operator: AdminClient, target: tuple[int, ...]) -> None:
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        while True:
            quorum = await operator.describe_quorum()
            if quorum.target_voters is None and voters_of(quorum) == set(target):
                return
            await asyncio.sleep(POLL_S)


async def _write(admin: AdminClient, number: int, acknowledged: list[float]) -> None:
    """Write one value after the other, forever. Raises RequestFailed if one is not acknowledged for a minute."""
    while True:
        await admin.alter_configs(ConfigResourceType.CLIENT_METRICS, f"writer-{number}", {"metrics": VALUE})
        acknowledged.append(time.perf_counter())
