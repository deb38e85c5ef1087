"""Three daemons with many partitions are killed and restarted: the number of epochs until a leader is stable, and the
time until it commits.

The partitions are created through the leader, so that the log is as long as in a real cluster, and the newest
snapshot lags behind it.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from quorumd.errors import RequestFailed
from quorumd.protocol.messages import create_topics_request as creation
from quorumd.protocol.messages.create_topics_response import CreateTopicsResponse
from scripts.bench.broker_fleet import Fleet
from scripts.bench.members import Members
from scripts.bench.processes import BenchError, wait_until
from scripts.bench.quorumd_cluster import is_acknowledged
from scripts.bench.summary import update_json

NODES = 3
BROKERS = 6
TOPICS = 300
PARTITIONS_PER_TOPIC = 1000
WAIT_TIMEOUT_S = 600.0
MAX_EPOCHS = 2
PROPERTIES = {"broker.session.timeout.ms": "3600000"}


@dataclass(slots=True)
class LargeLogReport:
    package: str
    partitions: int
    log_mb: float
    creation_s: float
    epochs: int
    """The number of epochs until the restarted nodes have a stable leader."""
    commit_s: float
    """Time from the start of the three processes to the first acknowledged write."""

    def missed(self) -> list[str]:
        if self.epochs <= MAX_EPOCHS:
            return []
        return [f"{self.partitions:,} partitions: the restart took {self.epochs} epochs, not {MAX_EPOCHS}"]

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "missed": self.missed()}

    def write_json(self, path: Path) -> None:
        update_json(path, {"large-log": self.as_json()})

    def print(self, console: Console) -> None:
        console.print(
            f"{self.partitions:,} partitions ({self.log_mb:,.0f} MB of log) created in {self.creation_s:.1f} s; all "
            f"three nodes killed and started: {self.epochs} epochs, {self.commit_s:.1f} s to the first commit"
        )
        for sentence in self.missed():
            console.print(f"[red]missed[/red]: {sentence}")
        console.print(f"quorumd: {self.package}")


def measure_large_log(
    directory: Path, package: str, echo: Callable[[str], None], topics: int
) -> LargeLogReport:
    """Run the measurement. Raises BenchError; all started processes are stopped."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    members = Members(directory.resolve(), NODES, NODES, PROPERTIES)
    try:
        for node_id in range(NODES):
            members.start(node_id)
        began = time.perf_counter()
        asyncio.run(_create(members, topics, echo))
        creation_s = time.perf_counter() - began
        log_mb = sum(segment.stat().st_size for segment in members.partition_directory(0).glob("*.log")) / 1e6
        epoch = members.describe().leader_epoch
        for process in members.processes.values():
            process.kill()
        members.processes.clear()
        echo("killed; starting")
        began = time.perf_counter()
        for node_id in range(NODES):
            members.launch(node_id)
        processes = list(members.processes.values())
        wait_until(
            "the first write",
            lambda: any(is_acknowledged(address) for address in members.addresses),
            processes,
            WAIT_TIMEOUT_S,
        )
        commit_s = time.perf_counter() - began
        epochs = members.describe().leader_epoch - epoch
    except (RequestFailed, TimeoutError) as error:
        raise BenchError(f"while a large log was created: {error}; the logs are in {directory}") from None
    finally:
        members.stop()
    shutil.rmtree(directory)
    return LargeLogReport(package, topics * PARTITIONS_PER_TOPIC, log_mb, creation_s, epochs, commit_s)


async def _create(members: Members, topics: int, echo: Callable[[str], None]) -> None:
    async with members.admin() as admin:
        leader_id = (await admin.describe_quorum()).leader_id
        cluster_id = (await admin.describe_cluster()).cluster_id
        fleet = await Fleet.register(*members.addresses[leader_id], cluster_id, BROKERS)
        try:
            for number in range(topics):
                topic = creation.CreatableTopic(f"large-{number}", PARTITIONS_PER_TOPIC, 3)
                response = await admin.send(creation.CreateTopicsRequest([topic], 60_000, False))
                assert isinstance(response, CreateTopicsResponse)
                if response.topics[0].error_code:
                    raise BenchError(f"a topic was not created: {response.topics[0].error_message}")
                if number % 50 == 0:
                    echo(f"{number * PARTITIONS_PER_TOPIC:,} partitions created")
        finally:
            fleet.close()
