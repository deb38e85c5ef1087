"""Brokers with two log directories besides the directory of the metadata log, and a producer for their topic."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from quorumd.cli.format.initial_features import bootstrap_content
from quorumd.cli.local_cluster import format_nodes
from quorumd.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from quorumd.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from scripts.bench.quorumd_cluster import request_once
from tests.interop.clients.writers import Job, Mode, by_librdkafka
from tests.interop.clients.written import PATIENCE_S, Written, read_log, violations
from tests.support.processes.daemons import BrokerDaemon, wait_for
from tests.support.processes.ports import free_port

TOPIC = "events"


class TwoDirectories(BrokerDaemon):
    """A broker with the log directories `first` and `second` for partitions."""

    def configure(self, extra: str = "") -> None:
        self.first, self.second = (self.data.parent / name for name in ("first", "second"))
        super().configure(f"metadata.log.dir={self.data}\nlog.dirs={self.first},{self.second}\n{extra}")

    def restart(self) -> None:
        """Start, and return when clients are served again."""
        before = self.starts()
        self.start()
        wait_for("the broker to serve clients", lambda: self.starts() > before, PATIENCE_S)

    def starts(self) -> int:
        return self.log_text().count("serves clients") if self.output.exists() else 0

    def described(self, directory: Path) -> DescribeLogDirsResult:
        """Return a log directory as the broker describes it."""
        address = ("127.0.0.1", self.clients)
        response = request_once(address, DescribeLogDirsRequest(None), 5, DescribeLogDirsResponse)
        return next(each for each in response.results if each.log_dir == str(directory))

    def all_numbers(self) -> set[int]:
        return self.numbers(self.first) | self.numbers(self.second)

    def numbers(self, directory: Path, is_future: bool = False) -> set[int]:
        """Return the partitions of the topic in a log directory."""
        topics = self.described(directory).topics
        found = (each for topic in topics if topic.name == TOPIC for each in topic.partitions)
        return {each.partition_index for each in found if each.is_future_key == is_future}


def break_directory(path: Path) -> None:
    """Replace a directory with a file: files that are open still work, everything else fails."""
    path.rename(f"{path}.away")
    path.write_bytes(b"not a directory")


def mend_directory(path: Path) -> None:
    """Put the directory back."""
    path.unlink()
    Path(f"{path}.away").rename(path)


class DirectoryCluster:
    """Nodes 1 to `size`, each a voter and a broker with two log directories."""

    def __init__(self, directory: Path, size: int, extra: str) -> None:
        self.ids = range(1, size + 1)
        voters = {node_id: free_port() for node_id in self.ids}
        self.nodes = [TwoDirectories(directory / f"node-{each}", each, voters, extra) for each in self.ids]
        if size > 1:
            format_nodes({each.node_id: (each.data, each.port) for each in self.nodes}, bootstrap_content())
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.nodes)

    @contextmanager
    def running(self) -> Iterator[DirectoryCluster]:
        """Run all nodes, and stop them at the end."""
        try:
            for node in self.nodes:
                node.start()
            for node in self.nodes:
                wait_for("the broker to serve clients", lambda node=node: node.starts() > 0, PATIENCE_S)  # type: ignore[misc] # the type of a default
            yield self
            assert [node.node_id for node in self.nodes if "Traceback" in node.log_text()] == []
        finally:
            for node in self.nodes:
                node.stop()

    def create_topic(self, partitions: int, **configs: str) -> None:
        """Create the topic with replicas on all nodes and evenly spread leaders; wait until all logs exist."""
        ids = self.ids
        assignment = [
            [ids[(number + each) % len(ids)] for each in range(len(ids))] for number in range(partitions)
        ]
        named = {name.replace("_", "."): value for name, value in configs.items()}
        topic = NewTopic(TOPIC, partitions, replica_assignment=assignment, config=named)
        self.admin.create_topics([topic])[TOPIC].result(PATIENCE_S)
        wait_for("the logs", lambda: all(len(each.all_numbers()) == partitions for each in self.nodes))

    def leaders(self) -> dict[int, int]:
        partitions = self.admin.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC].partitions
        return {number: each.leader for number, each in partitions.items()}

    def isrs(self) -> dict[int, set[int]]:
        partitions = self.admin.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC].partitions
        return {number: set(each.isrs) for number, each in partitions.items()}

    def await_brokers(self, expected: set[int]) -> None:
        """Wait until every node lists these brokers to clients: a broker that restarts is fenced for a moment."""

        def named(node: TwoDirectories) -> set[int]:
            admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
            return set(admin.list_topics(timeout=PATIENCE_S).brokers)

        wait_for("all brokers", lambda: all(named(node) == expected for node in self.nodes), PATIENCE_S)

    def await_isrs(self, expected: dict[int, set[int]]) -> None:
        wait_for(f"the ISRs {expected}", lambda: self.isrs() == expected, PATIENCE_S)


class Writing:
    """An idempotent producer with acks=all that writes to the topic in its own thread."""

    def __init__(self, bootstrap: str) -> None:
        self.written = Written("writer", is_exact=True)
        self._bootstrap = bootstrap
        self._over = threading.Event()
        job = Job(bootstrap, TOPIC, "none", Mode.IDEMPOTENT, self._over, self.written)
        self._thread = threading.Thread(target=by_librdkafka, args=(job,))

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        self._thread.join()

    def await_more(self) -> None:
        """Wait until more records are acknowledged, in every partition."""
        before = len(self.written.acknowledged)
        wait_for("acknowledged records", lambda: len(self.written.acknowledged) > before + 200, PATIENCE_S)

    def verify(self) -> None:
        """Check that every acknowledged record is in the log at its offset, once and in order."""
        assert self.written.errors == {}
        assert violations([self.written], read_log(self._bootstrap, TOPIC)) == []
