"""A trial: writers and groups run while the cluster is disturbed, and their records are compared with the log."""

from __future__ import annotations

import itertools
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.clients.disturbances import Disturbances, DisturbedCluster
from tests.interop.clients.readers import MEMBERS, Group
from tests.interop.clients.writers import WRITERS, Job, Mode
from tests.interop.clients.written import Written, read_log, violations
from tests.support.processes.daemons import wait_for

PATIENCE_S = 180.0
PARTITIONS, REPLICAS = 6, 3
TOPIC = "orders"


@dataclass(frozen=True, slots=True)
class Writer:
    """A producer: its client, its guarantees and its compression."""

    client: str
    mode: Mode
    codec: str

    def __str__(self) -> str:
        return f"{self.client}-{self.mode}-{self.codec}"


class Trial:
    """A cluster with writers and groups, and a topic with three replicas, of which two must be in sync."""

    def __init__(
        self, directory: Path, cluster: DisturbedCluster, writers: Iterable[Writer], groups: Iterable[str]
    ) -> None:
        self._directory = directory
        self._over = threading.Event()
        self._readers_over = threading.Event()
        self._failures: list[str] = []
        self.cluster = cluster
        self.written = {writer: Written(str(writer), writer.mode is not Mode.PLAIN) for writer in writers}
        self._group_names = tuple(groups)
        self.groups: list[Group] = []

    def run(
        self, actions: Iterable[Callable[[Disturbances], str]], report: Callable[[str], None]
    ) -> list[str]:
        """Disturb the cluster by the actions while clients run, and return the violations."""
        with self.cluster as cluster:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
            topic = NewTopic(TOPIC, PARTITIONS, REPLICAS, config={"min.insync.replicas": "2"})
            admin.create_topics([topic])[TOPIC].result(PATIENCE_S)
            disturbances = Disturbances(cluster, TOPIC, self._directory)
            writers = self._start_writers()
            readers = self._start_readers()
            try:
                wait_for("every writer to write", self._all_write, PATIENCE_S)
                for action in actions:
                    began = time.monotonic()
                    report(f"{action(disturbances)} in {time.monotonic() - began:.1f} s")
                    self._wait_for_progress()
            finally:
                self._over.set()
                for thread in writers:
                    thread.join()
            disturbances.wait_until_in_sync()
            log = read_log(cluster.bootstrap_servers, TOPIC)
            found = violations(self.written.values(), log)
            found += self._finish_groups(readers, set(log.values()))
        return self._failures + found

    def _start_writers(self) -> list[threading.Thread]:
        threads = []
        for writer, written in self.written.items():
            job = Job(self.cluster.bootstrap_servers, TOPIC, writer.codec, writer.mode, self._over, written)
            threads.append(self._thread(str(writer), partial(WRITERS[writer.client], job)))
        return threads

    def _start_readers(self) -> list[threading.Thread]:
        threads = []
        for name in self._group_names:
            group = Group(name, self.cluster.bootstrap_servers, TOPIC, self._readers_over)
            self.groups.append(group)
            threads += [self._thread(f"member of {name}", partial(each, group)) for each in MEMBERS[name]]
        return threads

    def _all_write(self) -> bool:
        return all(written.acknowledged for written in self.written.values())

    def _wait_for_progress(self) -> None:
        """Wait until further records of every writer are acknowledged."""
        before = {writer: len(written.acknowledged) for writer, written in self.written.items()}

        for writer, written in self.written.items():
            wait_for(
                f"{writer} to continue",
                lambda written=written, count=before[writer]: len(written.acknowledged) > count,
                PATIENCE_S,
            )

    def _finish_groups(self, readers: list[threading.Thread], values: set[bytes]) -> list[str]:
        """Wait until each group has consumed every visible record, and return the violations of the groups."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and any(values - group.values for group in self.groups):
            self._readers_over.wait(0.1)
        self._readers_over.set()
        for thread in readers:
            thread.join()
        found = [
            f"group {group.name} has not consumed {len(missing)} records, such as {next(iter(missing))!r}"
            for group in self.groups
            if (missing := values - group.values)
        ]
        found += [
            f"group {group.name} consumed {len(extra)} records that are not visible, such as {next(iter(extra))!r}"
            for group in self.groups
            if (extra := group.values - values)
        ]
        return found + list(itertools.chain.from_iterable(group.regressions for group in self.groups))

    def _thread(self, name: str, work: Callable[[], None]) -> threading.Thread:
        """Start a thread; an exception in it is a violation."""

        def run() -> None:
            try:
                work()
            except Exception:
                self._failures.append(f"{name} ended: {traceback.format_exc()}")

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread
