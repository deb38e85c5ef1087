"""One broker: hosts replicas as the metadata requires, serves clients, and keeps its registration alive."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from quorumd.broker.api.context import AccessLookup, BrokerApiContext, unrestricted
from quorumd.broker.api.families import broker_routes
from quorumd.broker.channels.broker_client import BrokerClient
from quorumd.broker.channels.controller_channel import ControllerChannel
from quorumd.broker.controller_requests.alter_partition import AlterPartitionChannel
from quorumd.broker.controller_requests.directory_reports import DirectoryReports
from quorumd.broker.controller_requests.lifecycle import BrokerLifecycle, BrokerState, LifecycleSettings
from quorumd.broker.controller_requests.producer_ids import ProducerIds
from quorumd.broker.controller_requests.topic_creation import TopicCreation
from quorumd.broker.coordinator.regex_evaluator import RegexEvaluator
from quorumd.broker.coordinator.topic_regexes import RegexCompiler
from quorumd.broker.coordinators import Coordinators
from quorumd.broker.fetching.fetchers import ReplicaFetchers
from quorumd.broker.housekeeping.housekeeping import Housekeeping
from quorumd.broker.housekeeping.log_closing import LogClosing
from quorumd.broker.log.clean_shutdown import previous_broker_epoch, remove_clean_shutdown
from quorumd.broker.log.offset_checkpoint import RECOVERY_POINTS
from quorumd.broker.log_management.directories import CHECKPOINTS, LogDirectories, LogDirectory
from quorumd.broker.log_management.topic_settings import cordoned_paths, move_rate
from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.broker.metadata.metadata_delta import MetadataDelta
from quorumd.broker.partitions.directory_moves import DirectoryMoves
from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.partitions.partitions import Partitions
from quorumd.broker.replication.isr_proposal import IsrProposal
from quorumd.broker.settings.broker_settings import BrokerSettings
from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.metadata_versions import SUPPORTED_FEATURES
from quorumd.errors import StorageError
from quorumd.ports import Clock, Disk, Entropy
from quorumd.protocol.batch_header import BatchHeader
from quorumd.protocol.messages.broker_registration_request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from quorumd.protocol.routes import Route, SlicedTask
from quorumd.quotas.client_quotas import NO_QUOTAS, ClientQuotas

logger = logging.getLogger("quorumd.broker")


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    """The parts of its process that a broker uses."""

    clock: Clock
    disk: Disk
    entropy: Entropy
    client: BrokerClient
    """Sends requests to other brokers."""
    open_channel: Callable[[], ControllerChannel]
    """Opens another connection to the active controller; each purpose has its own."""
    begin: Callable[[SlicedTask], None]
    """Runs a task in slices."""
    compile_regex: RegexCompiler
    """Compiles the regular expressions of subscriptions."""


class BrokerListener(Protocol):
    """Callbacks for the process."""

    def on_unfenced(self) -> None:
        """Accept connections of clients: the broker is unfenced."""

    def on_failed(self, reason: str) -> None:
        """Stop the process: the storage of the broker has failed."""

    def on_controller_timeout(self, reason: str) -> None:
        """Stop the process; see `LifecycleListener`."""


class Broker:
    """One incarnation of a broker; a restart creates another.

    Call `start`, then pass everything committed in the metadata log to `load` (a snapshot) and `apply` (a batch), in
    order. `shut_down` shuts down gracefully; `stop` stops at once, as a crash would.
    """

    def __init__(self, settings: BrokerSettings, ports: BrokerPorts, listener: BrokerListener) -> None:
        self.settings = settings
        self.clock = ports.clock
        self.metadata = BrokerMetadata()
        self.incarnation_id = ports.entropy.uuid()
        self.directories = LogDirectories.load(ports.disk, settings.log_directories, settings.broker_id)
        self.directories.cordon(settings.cordoned_directories)
        self.partitions = Partitions(
            settings,
            ports.clock,
            ports.disk,
            ports.entropy,
            self.metadata,
            self.directories,
            self._propose,
            self._on_directory_failed,
        )
        self.alter_partition = AlterPartitionChannel(
            ports.clock,
            ports.open_channel(),
            settings.broker_id,
            self.broker_epoch,
            self.partitions.handle_proposal_response,
        )
        self.fetchers = ReplicaFetchers(settings.broker_id, settings.fetch, ports.clock, ports.client, self)
        self.housekeeping = Housekeeping(settings, ports.clock, ports.disk, self.partitions)
        self.moves = self._create_moves()
        self.directory_reports = DirectoryReports(
            ports.clock,
            ports.open_channel(),
            settings.broker_id,
            self.broker_epoch,
            self.moves.accepted,
        )
        for each in (self.housekeeping, self.fetchers, self.moves, self.directory_reports):
            self.partitions.add_listener(each)
        self._ports = ports
        self._listener = listener
        self._on_shut_down: Callable[[], None] | None = None
        self._has_opened_logs = False
        self._is_closing = False
        self.producer_ids = ProducerIds(
            settings.broker_id, lambda: self.epoch, ports.open_channel(), ports.clock
        )
        self.topic_creation = TopicCreation(ports.open_channel(), ports.clock)
        self.coordinators = self._create_coordinators(ports)
        self.lifecycle = self._create_lifecycle(ports)

    def _create_moves(self) -> DirectoryMoves:
        return DirectoryMoves(
            self.clock,
            self.partitions,
            lambda: move_rate(self.metadata.image, self.settings.broker_id),
            lambda hosted: self.directory_reports.check(hosted),
            self._on_moved,
        )

    def _create_lifecycle(self, ports: BrokerPorts) -> BrokerLifecycle:
        settings = self.settings
        return BrokerLifecycle(
            LifecycleSettings(
                settings.heartbeat_interval_ms,
                settings.registration_timeout_ms,
                directory_failure_timeout_ms=settings.directory_failure_timeout_ms,
            ),
            ports.clock,
            ports.open_channel(),
            self._registration,
            lambda: self.metadata.offset,
            lambda: self.directories.offline_ids,
            lambda: self.directories.cordoned_ids if self.metadata.has_cordons else None,
            self,
        )

    def _create_coordinators(self, ports: BrokerPorts) -> Coordinators:
        return Coordinators(
            self.settings,
            ports.clock,
            ports.entropy,
            self.metadata,
            self.partitions,
            self.topic_creation,
            self.producer_ids,
            ports.client,
            RegexEvaluator(ports.clock, ports.begin, ports.compile_regex, self.metadata),
        )

    @property
    def epoch(self) -> int:
        """The broker epoch, -1 before registration."""
        return self.lifecycle.epoch

    @property
    def state(self) -> BrokerState:
        return self.lifecycle.state

    def routes(
        self, access: AccessLookup = unrestricted, quotas: ClientQuotas = NO_QUOTAS
    ) -> Iterable[Route]:
        """Return the handlers of the broker's APIs."""
        ports = self._ports
        context = BrokerApiContext(
            self.settings,
            ports.clock,
            ports.entropy,
            self.metadata,
            self.partitions,
            self.moves,
            self.producer_ids,
            self.topic_creation,
            ports.begin,
            self.coordinators.verifier,
            access,
            quotas,
        )
        return [
            *broker_routes(context, self.coordinators.transactions.init_producer_id),
            *self.coordinators.routes(access, ports.begin),
        ]

    def start(self) -> None:
        """Register. Raises StorageError if no log directory can be used."""
        if not self.directories.online:
            raise StorageError(
                f"no log directory can be used: {', '.join(self.settings.log_directories)}; see the log for causes"
            )
        self.lifecycle.start()

    # Metadata

    def apply(self, data: bytes, header: BatchHeader) -> None:
        """Apply a committed batch of the metadata log; `data` contains all of it at `header.position`.

        Raises MalformedMessage, UnsupportedVersion.
        """
        self._apply_delta(self.metadata.apply(data, header))

    def load(self, image: ClusterImage, end_offset: int) -> None:
        """Replace the metadata by `image`, a snapshot of the records below `end_offset`."""
        self._apply_delta(self.metadata.load(image, end_offset))

    def _apply_delta(self, delta: MetadataDelta) -> None:
        if delta.changes_broker_configs(self.settings.broker_id):
            self._cordon()
        self.partitions.apply(delta, self._ports.clock.now_ms())
        self.coordinators.apply(delta)

    def _cordon(self) -> None:
        """Cordon the directories that the configs name, and report the change, if any, to the controller."""
        settings = self.settings
        paths = cordoned_paths(self.metadata.image, settings.broker_id, settings.cordoned_directories)
        if self.directories.cordon(paths):
            self.lifecycle.cordons_changed()

    # Lifecycle

    def _registration(self) -> BrokerRegistrationRequest:
        settings, online = self.settings, self.directories.online
        return BrokerRegistrationRequest(
            settings.broker_id,
            settings.cluster_id,
            self.incarnation_id,
            [
                Listener(each.name, each.host, each.port, each.security_protocol)
                for each in settings.listeners
            ],
            [Feature(name, lowest, highest) for name, lowest, highest in SUPPORTED_FEATURES],
            settings.rack,
            False,
            [directory.id for directory in online],
            previous_broker_epoch([directory.clean_epoch for directory in online]),
        )

    def on_registered(self, broker_epoch: int) -> None:
        """See `LifecycleListener`."""

    def on_caught_up(self) -> None:
        """Open the logs of this broker; see `LifecycleListener`."""
        for directory in self.directories.online:
            self._mark_used(directory)
        self._has_opened_logs = True
        self.partitions.begin(self._on_logs_open)

    def _on_logs_open(self) -> None:
        self.housekeeping.start()
        self.lifecycle.recovered()

    def _mark_used(self, directory: LogDirectory) -> None:
        """Remove the clean shutdown files before any log changes."""

        def removed(outcome: object) -> None:
            if isinstance(outcome, BaseException):
                self.partitions.fail_directory(directory, str(outcome))

        disk, path = self._ports.disk, directory.path
        self.partitions.logs.operations.run(lambda: remove_clean_shutdown(disk, path), removed)

    def on_unfenced(self) -> None:
        """See `LifecycleListener`."""
        logger.info("broker %d serves clients", self.settings.broker_id)
        self._listener.on_unfenced()

    def on_controller_timeout(self, reason: str) -> None:
        """See `LifecycleListener`."""
        self._listener.on_controller_timeout(reason)

    def _on_moved(self, hosted: HostedPartition, previous: LogDirectory) -> None:
        """Save the checkpoints of both directories after a replica has moved between them."""
        self.housekeeping.appended(hosted)
        for directory in (hosted.directory, previous):
            for name in CHECKPOINTS:
                self._save_checkpoint(directory, name)

    def _save_checkpoint(
        self, directory: LogDirectory, name: str, done: Callable[[], None] | None = None
    ) -> None:
        hosted = [each for each in self.partitions.all() if each.directory is directory]
        self.housekeeping.checkpoints.save(directory, name, hosted, done)

    def _on_directory_failed(self, directory: LogDirectory) -> None:
        self.moves.directory_failed(directory)
        if not self.directories.online:
            self._listener.on_failed("every log directory has failed")
        elif directory.path == self.settings.metadata_directory:
            self._listener.on_failed(
                f"log directory {directory.path} has failed; it contains the metadata log"
            )
        else:
            self.lifecycle.directory_failed()

    # Replication

    def _propose(self, proposal: IsrProposal) -> bool:
        return self.alter_partition.propose(proposal)

    def broker_epoch(self) -> int:
        """See `FetcherContext`."""
        return self.lifecycle.epoch

    def fetched(self, hosted: HostedPartition) -> None:
        """See `FetcherContext`."""
        self.housekeeping.appended(hosted)

    def truncated(self, hosted: HostedPartition, done: Callable[[], None]) -> None:
        """See `FetcherContext`."""
        self._save_checkpoint(hosted.directory, RECOVERY_POINTS, done)

    def log_failed(self, hosted: HostedPartition, fault: BaseException) -> None:
        """See `FetcherContext`."""
        self.partitions.handle_log_error(hosted, fault)

    # Shutdown

    def shut_down(self, on_done: Callable[[], None]) -> None:
        """Shut down gracefully: hand over all leaderships, if `controlled_shutdown` is set, and close the logs.

        `on_done` is called at the end; the caller then calls `stop`.
        """
        self._on_shut_down = on_done
        if self.settings.controlled_shutdown:
            self.lifecycle.shut_down()
        else:
            self.on_shutdown_granted()

    def on_shutdown_granted(self) -> None:
        """Close the logs; see `LifecycleListener`."""
        if self._is_closing:
            return
        self._is_closing = True
        self._stop_work()
        closing = LogClosing(self._ports.disk, self.partitions.logs, self.housekeeping.checkpoints)
        closed = self.partitions.close()
        if self._has_opened_logs:
            closing.close(closed, self.lifecycle.epoch, self._on_closed)
        else:
            # No log was opened, so the clean shutdown files of the previous run remain valid.
            self._ports.clock.call_soon(self._on_closed)

    def _on_closed(self) -> None:
        if self._on_shut_down is not None:
            on_shut_down, self._on_shut_down = self._on_shut_down, None
            on_shut_down()

    def _stop_work(self) -> None:
        self.lifecycle.stop()
        self.housekeeping.stop()
        self.fetchers.stop()
        self.alter_partition.stop()
        self.directory_reports.stop()

    def stop(self) -> None:
        """Stop immediately, without a clean shutdown of the logs."""
        self._stop_work()
        self.partitions.close()
