"""The broker of a node: built once the cluster id is known, fed with the metadata log, shut down before the node."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.broker.api.metadata import SLICE_PARTITIONS
from quorumd.broker.broker import Broker, BrokerPorts
from quorumd.broker.channels.controller_channel import ControllerChannel
from quorumd.broker.controller_requests.lifecycle import BrokerState
from quorumd.broker.coordinator.topic_regexes import RegexCompiler
from quorumd.broker.log_management.cordon_requests import has_known_cordons
from quorumd.errors import ExitCode, StorageError
from quorumd.ids import OffsetAndEpoch
from quorumd.node.broker.broker_client import NodeBrokerClient
from quorumd.node.broker.clients import ClientListeners
from quorumd.node.broker.controlled_shutdown import ControlledShutdown
from quorumd.node.broker.controller_channel import ControllerAccess, NodeControllerChannel
from quorumd.node.broker.counters import BrokerCounters
from quorumd.node.broker.log_directories import record_cluster_id
from quorumd.node.broker.metadata_feed import MetadataFeed
from quorumd.node.lifecycle import Lifecycle
from quorumd.node.sessions.slice_scheduler import SliceScheduler
from quorumd.ports import Disk, Entropy


class NodeBroker:
    """Builds, runs and stops the broker, and adds its APIs to `clients`.

    `broker` is None until the cluster id, which the first leader of a new cluster generates, is committed.
    """

    def __init__(
        self,
        access: ControllerAccess,
        disk: Disk,
        entropy: Entropy,
        compile_regex: RegexCompiler,
        lifecycle: Lifecycle,
        clients: ClientListeners,
    ) -> None:
        self.broker: Broker | None = None
        self.counters = BrokerCounters()
        self._settings = clients.settings
        self._access = access
        self._clock = access.node.clock
        self._disk = disk
        self._entropy = entropy
        self._compile_regex = compile_regex
        self._log = access.quorum.log
        self._identity = access.quorum.identity
        self._lifecycle = lifecycle
        self._clients = clients
        self._channels: list[NodeControllerChannel] = []
        self._client: NodeBrokerClient | None = None
        self._feed: MetadataFeed | None = None
        self._start_snapshot: OffsetAndEpoch | None = None
        self._committed_offset = 0
        self._is_shutting_down = False

    @property
    def bound_port(self) -> int:
        """The port of the first listener for clients."""
        return self._clients.bound_port(self._settings.template.listeners[0].name)

    @property
    def state(self) -> BrokerState:
        """The state of the broker, as Kafka defines it; STARTING until the cluster id is known."""
        return self.broker.state if self.broker is not None else BrokerState.STARTING

    def start(self, snapshot: OffsetAndEpoch | None, committed_offset: int) -> None:
        """Follow the metadata log from its newest snapshot on, once the cluster id is known."""
        self._start_snapshot = snapshot
        self.committed(committed_offset)

    def committed(self, high_watermark: int) -> None:
        """Handle a new high watermark of the metadata log."""
        self._committed_offset = max(self._committed_offset, high_watermark)
        if self._feed is not None:
            self._feed.committed(self._committed_offset)
        elif self._identity.cluster_id is not None and not self._is_shutting_down:
            self._build(self._identity.cluster_id)

    def cluster_adopted(self) -> None:
        """Build the broker now that the cluster id is known: an idle cluster commits nothing more."""
        self.committed(self._committed_offset)

    def leadership_changed(self) -> None:
        """Handle a change of the leader of the metadata log."""
        for channel in self._channels:
            channel.leader_changed()

    def _build(self, cluster_id: str) -> None:
        settings = self._settings.broker_settings(cluster_id, self._clients.bound_port)
        listener = settings.inter_broker_listener
        self._client = NodeBrokerClient(self._clock, self._access.connect(listener), listener)
        scheduler = SliceScheduler(self._clock.call_soon, SLICE_PARTITIONS, self._access.node.paying)
        ports = BrokerPorts(
            self._clock,
            self._disk,
            self._entropy,
            self._client,
            self.open_channel,
            scheduler.begin,
            self._compile_regex,
        )
        try:
            # The node itself saves the id in the directory of the metadata log.
            record_cluster_id(self._disk, self._access.node.settings.data_directories[1:], cluster_id)
            broker = self.broker = Broker(settings, ports, self)
            self._client.metadata = broker.metadata
            broker.partitions.add_listener(self.counters)
            routes = broker.routes(self._clients.access, self._clients.quotas)
            self._clients.add_broker_apis(routes, scheduler)
            self._clients.check_configs(
                lambda message: has_known_cordons(message, settings.broker_id, broker.directories)
            )
            broker.start()
        except StorageError as error:
            self._lifecycle.fail(error)
            return
        feed = self._feed = MetadataFeed(
            self._log, self._clock, self._disk, self._lifecycle.call_soon, broker
        )
        feed.start(self._start_snapshot, self._committed_offset)

    def open_channel(self) -> ControllerChannel:
        """Open one more channel to the active controller."""
        channel = NodeControllerChannel(self._access)
        self._channels.append(channel)
        return channel

    # `BrokerListener`

    def on_unfenced(self) -> None:
        """Accept connections of clients."""
        self._clients.is_open = True

    def on_failed(self, reason: str) -> None:
        """Stop the process, since the storage of its broker has failed."""
        self._lifecycle.stop(ExitCode.DATA_DIRECTORY, reason)

    def on_controller_timeout(self, reason: str) -> None:
        """Stop the process, since the controllers do not accept its broker."""
        self._lifecycle.stop(ExitCode.CONTROLLER_TIMEOUT, reason)

    # Shutdown

    def shut_down(self, on_done: Callable[[], None]) -> None:
        """Hand over leadership of all partitions, close the logs, then call `on_done`."""
        self._is_shutting_down = True
        if self.broker is None:
            on_done()
            return

        def done() -> None:
            self._clients.close()
            on_done()

        engine = self._access.quorum.engine
        ControlledShutdown(self.broker, self._clock, engine, self._lifecycle).begin(done)

    def stop(self) -> None:
        """Stop at once."""
        self._clients.close()
        if self.broker is not None:
            self.broker.stop()
        for channel in self._channels:
            channel.close()
        if self._client is not None:
            self._client.close()
