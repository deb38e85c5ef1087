"""Writers that record acknowledged writes, and a check of the logs against these records."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.support.log.log_files import config_changes
from tests.support.processes.requests import Refused, set_register
from tests.support.processes.wire import Wire

LOAD = "load-"
_numbers = count(1)


@dataclass
class Writer:
    """A client that writes unique values to its own config, one after another, through any node that responds."""

    name: str
    addresses: list[tuple[str, int]]
    connect: Callable[..., Wire] = Wire
    acknowledged: list[int] = field(default_factory=list)
    times: list[tuple[float, float]] = field(default_factory=list)
    """The times (time.monotonic) at which each acknowledged write was begun and acknowledged."""
    attempts: int = 0
    refusals: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _turn: int = 0

    def run(self) -> None:
        wire: Wire | None = None
        while not self._stop.is_set():
            self.attempts += 1
            begun = time.monotonic()
            try:
                if wire is None:
                    wire = self.connect(self.addresses[self._turn % len(self.addresses)], timeout=3)
                set_register(wire, self.name, str(self.attempts))
                self.acknowledged.append(self.attempts)
                self.times.append((begun, time.monotonic()))
                continue
            except Refused:
                self.refusals += 1
            except OSError:
                pass
            if wire is not None:
                wire.close()
                wire = None
            self._turn += 1
            self._stop.wait(0.01)
        if wire is not None:
            wire.close()


class Workload:
    """Several writers, each in a thread, which run inside a `with` block."""

    def __init__(
        self, addresses: list[tuple[str, int]], writers: int = 4, connect: Callable[..., Wire] = Wire
    ) -> None:
        number = next(_numbers)
        rotated = [addresses[i % len(addresses) :] + addresses[: i % len(addresses)] for i in range(writers)]
        self.writers = [Writer(f"{LOAD}{number}-{i}", nodes, connect) for i, nodes in enumerate(rotated)]
        self._threads = [threading.Thread(target=writer.run) for writer in self.writers]

    def __enter__(self) -> Workload:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self.writers:
            writer._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def acknowledged(self) -> int:
        """The number of writes acknowledged so far, of all writers."""
        return sum(len(writer.acknowledged) for writer in self.writers)

    def first_acknowledged_after(self, moment: float) -> float | None:
        """Return when the first write that was begun after `moment` was acknowledged, None if none was."""
        after = [ended for writer in self.writers for begun, ended in writer.times[-500:] if begun > moment]
        return min(after, default=None)


def lost_writes(workload: Workload, partition_directory: Path, high_watermark: int) -> dict[str, list[int]]:
    """Return the acknowledged values of each writer that the committed records of a log lack; {} if there are none.

    Fails if a value occurs twice, or if the acknowledged values of a writer are not in the order in which it wrote
    them: a writer waits for each response. A value that was never acknowledged may be committed at any later time.
    """
    stored: dict[str, list[int]] = defaultdict(list)
    for group, _, value in config_changes(partition_directory, high_watermark):
        if group.startswith(LOAD):
            stored[group].append(int(value or -1))
    lost = {}
    for writer in workload.writers:
        values = stored[writer.name]
        assert len(values) == len(set(values)), f"{writer.name}: a record occurs twice: {values}"
        acknowledged = set(writer.acknowledged)
        in_order = [value for value in values if value in acknowledged]
        assert in_order == sorted(in_order), f"{writer.name}: acknowledged in another order: {in_order}"
        missing = sorted(acknowledged - set(values))
        if missing:
            lost[writer.name] = missing
    return lost
