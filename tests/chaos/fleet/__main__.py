"""A process with brokers without data and an administrator: the clients of the controller.

    python -m tests.chaos.fleet --seed 7 --history FILE --calm FILE HOST:PORT...

Brokers register, shrink and expand ISRs, and one at a time stops its heartbeats, is killed or shuts down; topics are
created, reassigned and deleted. In total these are some tens of requests per second. After SIGUSR1 no more actions
are started, and once all brokers are active and all replicas are in sync, the file --calm is created. SIGTERM ends
the process.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from quorumd.client.admin import AdminClient
from tests.chaos.client import address
from tests.chaos.fleet.admin import Administrator
from tests.chaos.fleet.broker import Broker
from tests.chaos.fleet.history import HistoryWriter
from tests.chaos.fleet.metadata import Metadata
from tests.chaos.fleet.process import LISTENING
from tests.chaos.fleet.replication import FALLS_BEHIND, Copies, is_whole
from tests.chaos.fleet.request_channel import Address

RACKS = {101: "a", 102: "b", 103: "c", 104: "a"}
"""Racks by broker id."""
LOOK_S = 0.5
START_MS = 60_000.0


class Fleet:
    """The brokers and the administrator of the process."""

    def __init__(self, nodes: list[Address], cluster_id: str, seed: int, history: HistoryWriter) -> None:
        def random(name: str) -> Random:
            return Random(f"{seed}-{name}")

        self._metadata = Metadata(nodes)
        self._copies = Copies(random("copies"))
        exit_door = asyncio.Lock()
        self._brokers = [
            Broker(
                broker,
                rack,
                cluster_id,
                self._metadata,
                self._copies,
                history,
                random(f"{broker}"),
                exit_door,
            )
            for broker, rack in RACKS.items()
        ]
        self._administrator = Administrator(nodes, list(RACKS), self._metadata, history, random("admin"))
        self._falls_behind = FALLS_BEHIND

    def rest(self) -> None:
        """Start no more actions."""
        self._falls_behind = 0.0
        self._administrator.is_resting = True
        for broker in self._brokers:
            broker.stays = True

    async def run(self, calm: Path) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._metadata.follow())
            for broker in self._brokers:
                tasks.create_task(broker.live())
            administration = tasks.create_task(self._administrator.work())
            while True:
                image = self._metadata.image
                self._copies.advance(image, time.monotonic(), falls_behind=self._falls_behind)
                if administration.done() and self._metadata.has_caught_up and is_whole(image, list(RACKS)):
                    calm.touch()
                await asyncio.sleep(LOOK_S)


async def work(nodes: list[Address], seed: int, history_file: Path, calm: Path) -> None:
    """Run the fleet until SIGTERM."""
    loop = asyncio.get_running_loop()
    async with AdminClient(nodes, timeout_ms=START_MS) as admin:
        cluster_id = (await admin.metadata()).cluster_id or ""
    with history_file.open("a", buffering=1, encoding="utf-8") as file:
        fleet = Fleet(nodes, cluster_id, seed, HistoryWriter(file))
        running = asyncio.ensure_future(fleet.run(calm))
        loop.add_signal_handler(signal.SIGUSR1, fleet.rest)
        loop.add_signal_handler(signal.SIGTERM, running.cancel)
        loop.add_signal_handler(signal.SIGINT, lambda: None)  # the orchestrator handles Ctrl-C
        print(LISTENING, flush=True)
        with suppress(asyncio.CancelledError):
            await running


def main() -> None:
    """Run as the module docstring describes."""
    parser = argparse.ArgumentParser(prog="tests.chaos.fleet")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--calm", type=Path, required=True)
    parser.add_argument("nodes", type=address, nargs="+")
    given = parser.parse_args()
    asyncio.run(work(given.nodes, given.seed, given.history, given.calm))


if __name__ == "__main__":
    main()
