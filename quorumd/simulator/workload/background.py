"""All clients except the clients of registers and lists: administrators, and writers and readers of metadata."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.simulator.checkers.access import AccessIsAsGranted
from quorumd.simulator.checkers.consumers import ConsumersReadCommitted
from quorumd.simulator.checkers.logins import LoginsAreAuthentic
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.environment.entropy import Streams
from quorumd.simulator.inspection.inspector import Inspector
from quorumd.simulator.liveness.access import LastRights
from quorumd.simulator.liveness.logins import LastLogins
from quorumd.simulator.workload.access_client import AccessWorkload
from quorumd.simulator.workload.careless_administrator import CarelessAdministrator
from quorumd.simulator.workload.cluster_reader import ClusterReader
from quorumd.simulator.workload.config_administrator import ConfigAdministrator
from quorumd.simulator.workload.feature_operator import FeatureOperator
from quorumd.simulator.workload.impolite_client import ImpoliteClient
from quorumd.simulator.workload.kept_records_writer import KeptRecordsWriter
from quorumd.simulator.workload.log_consumer import LogConsumer
from quorumd.simulator.workload.login_client import LoginWorkload
from quorumd.simulator.workload.restored_copies import RestoredCopies
from quorumd.simulator.workload.unread_responses import UnreadResponses


class BackgroundWorkload:
    """The background clients that the options of a seed include."""

    def __init__(self, cluster: Cluster, streams: Streams, inspector: Inspector) -> None:
        self._cluster = cluster
        self._streams = streams
        self._options = cluster.options
        self._inspector = inspector
        self._kept_records = KeptRecordsWriter(
            cluster,
            streams.stream("kept records"),
            self._options.kept_records_ms,
            self._options.kept_records_at_once,
        )
        self._features = FeatureOperator(
            cluster,
            streams.stream("feature operator"),
            self._options.features.changes_ms,
            inspector.features,
            self._options.features.changed,
        )
        self._configs = ConfigAdministrator(
            cluster,
            streams.stream("config administrator"),
            self._options.configs_ms,
            inspector.administration,
        )
        self._reader = ClusterReader(
            cluster, streams.stream("cluster reader"), self._options.reads_ms, inspector.reads
        )
        self._careless = CarelessAdministrator(cluster, streams.stream("mistakes"), self._options.mistakes_ms)
        self._impolite = ImpoliteClient(cluster, streams.stream("impolite"), self._options.impolite_ms)
        self._unread = UnreadResponses(cluster, streams.stream("unread"), self._options.unread_ms)
        self._consumed = ConsumersReadCommitted(inspector.committed)
        self._consumer = LogConsumer(
            cluster, streams.stream("log consumer"), self._options.consumer_ms, self._consumed
        )
        self._copies = RestoredCopies(cluster, streams.stream("restored copies"), self._options.copies_ms)
        self._granted = AccessIsAsGranted()
        self._access = AccessWorkload(
            cluster, streams.stream("access"), self._options.access_ms, self._granted
        )
        self._authentic = LoginsAreAuthentic("clock jump" in self._options.faults)
        self._logins = LoginWorkload(
            cluster, streams.stream("logins"), self._options.logins_ms, self._authentic, self._granted
        )

    def start(self) -> None:
        options = self._options
        for client, interval_ms in (
            (self._kept_records, options.kept_records_ms),
            (self._features, options.features.changes_ms),
            (self._configs, options.configs_ms),
            (self._reader, options.reads_ms),
            (self._consumer, options.consumer_ms),
            (self._copies, options.copies_ms),
            (self._access, options.access_ms),
            (self._logins, options.logins_ms),
            (self._careless, options.mistakes_ms),
            (self._impolite, options.impolite_ms),
            (self._unread, options.unread_ms),
        ):
            if interval_ms:
                client.start()

    def stop(self) -> None:
        self._kept_records.running = self._features.running = False
        self._configs.running = self._reader.running = self._consumer.running = False
        self._careless.running = self._impolite.running = self._copies.running = False
        self._unread.running = False
        self._access.stop()
        self._logins.stop()

    def require_settled(self, run_until: Callable[[float], None]) -> None:
        """Require that every running node grants the rights and accepts the logins that were set. Raises
        InvariantViolation."""
        if self._options.access_ms:
            LastRights(self._cluster, self._granted, self._streams.stream("last rights"), run_until).require()
        if self._options.logins_ms:
            random = self._streams.stream("last logins")
            LastLogins(self._cluster, self._authentic, self._granted, random, run_until).require()

    def counters(self) -> dict[str, int]:
        """Return the numbers of requests and of comparisons, by name."""
        return {
            **self._features.counters,
            **self._configs.counters,
            "administered values checked": self._inspector.administration.checked,
            "features changed": self._inspector.features.changes,
            **self._inspector.reads.counters,
            **self._consumer.counters,
            **self._copies.counters,
            **self._access.counters,
            "rights checked": self._granted.checked,
            **self._authentic.counters,
            **self._careless.counters,
            **self._impolite.counters,
            **self._unread.counters,
            "consumed batches checked": self._consumed.checked,
        }
