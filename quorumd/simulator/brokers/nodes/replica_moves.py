"""Two operators that move replicas between the log directories of broker nodes (KIP-113): one during the run, and one
whose moves must complete at the end of it, even after a power loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import Random
from typing import Final

from quorumd.broker.log_management.topic_settings import MOVE_RATE
from quorumd.controller.cluster_image import ALL_BROKERS
from quorumd.controller.partition import PartitionId
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.cluster_view import ClusterView
from quorumd.simulator.brokers.nodes.clients import BACKOFF_MS, BrokerClient
from quorumd.simulator.brokers.nodes.record import Recorder
from quorumd.simulator.brokers.nodes.roles import FIRST_BROKER
from quorumd.simulator.cluster import Cluster, Machine

VERSIONS: Final = (1, 2)
UNKNOWN_PATH: Final = "/no-such-directory"
RATES: Final = ("", "", "2000", "20000")
"""Values of the throttle, in bytes per second; "" for none."""
CANCELLATIONS: Final = 0.3
"""Share of the moves that are cancelled."""
LONGEST_CANCELLED_MS: Final = 50.0
"""Longest time from the response to a request until its move is cancelled."""
LAST_CANCELLATIONS: Final = 0.5
"""Share of the brokers that begin other moves first, which the last moves cancel."""
RECORD_CHECK_MS: Final = 0.5
POWER_LOSSES: Final = 0.5
"""Share of the brokers that lose power once they have confirmed the last moves."""

Targets = Mapping[PartitionId, str]
"""The path of a log directory for each replica."""


def move_request(view: ClusterView, targets: Targets) -> AlterReplicaLogDirsRequest:
    """Build the request that moves replicas of one broker."""
    directories: dict[str, dict[str, list[int]]] = {}
    for where, path in targets.items():
        name = view.image.topics[where.topic_id].name
        directories.setdefault(path, {}).setdefault(name, []).append(where.number)
    return AlterReplicaLogDirsRequest(
        [
            AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(*topic) for topic in topics.items()])
            for path, topics in directories.items()
        ]
    )


def replicas_of(view: ClusterView, broker_id: int) -> list[PartitionId]:
    """Return the replicas that the committed metadata places on a broker, sorted by topic name and number."""
    return [
        PartitionId(topic_id, number)
        for _, topic_id in sorted(view.image.topic_ids.items())
        for number, row in view.image.topics[topic_id].partitions.items()
        if broker_id in row.replicas
    ]


def recorded_paths(
    cluster: Cluster, view: ClusterView, broker_id: int, replicas: Iterable[PartitionId]
) -> Targets:
    """Return the log directories that the committed metadata has for replicas of a broker."""
    paths = {directory: path for path, directory in cluster.machines[broker_id].log_directories.items()}
    found = {}
    for where in replicas:
        row = view.row(where)
        if row is not None and broker_id in row.replicas:
            directory = row.directories[row.replicas.index(broker_id)]
            if directory in paths:
                found[where] = paths[directory]
    return found


class ReplicaMover:
    """Moves one replica after another until `running` is False; moves may overlap or reverse earlier ones."""

    def __init__(self, client: BrokerClient, cluster: Cluster, view: ClusterView, recorder: Recorder) -> None:
        self.running = True
        self._client = client
        self._random: Random = client.random
        self._cluster = cluster
        self._view = view
        self._recorder = recorder
        self._mean_ms = cluster.options.brokers.moves_ms

    def start(self) -> None:
        """Throttle moves in some seeds, and schedule the first one."""
        rate = self._random.choice(RATES)
        if rate:
            self._throttle(rate)
        self._later()

    def _throttle(self, rate: str) -> None:
        resource = AlterConfigsResource(*ALL_BROKERS, [AlterableConfig(MOVE_RATE, 0, rate)])
        request = IncrementalAlterConfigsRequest([resource])
        observation = self._recorder.observation
        observation.admin_request_sent(request)
        completed = partial(observation.admin_request_completed, request)
        self._client.call(self._client.any_broker(), request, 1, completed, purpose="throttle")

    def _later(self) -> None:
        if self.running:
            self._client.later(self._random.random() * 2 * self._mean_ms, self._next)

    def _next(self) -> None:
        if not self.running:
            return
        broker_id = self._client.any_broker()
        replicas = replicas_of(self._view, broker_id)
        if not replicas:
            self._later()
            return
        count = min(len(replicas), self._random.choice((1, 1, 3)))
        paths = [*self._cluster.machines[broker_id].log_directories] * 4 + [UNKNOWN_PATH]
        targets = {where: self._random.choice(paths) for where in self._random.sample(replicas, count)}
        then: Callable[[], None] = self._later
        if self._random.random() < CANCELLATIONS:
            origins = recorded_paths(self._cluster, self._view, broker_id, targets)
            then = partial(self._cancel, broker_id, origins)
        self._request(broker_id, targets, then)

    def _cancel(self, broker_id: int, origins: Targets) -> None:
        """Move the replicas back, while the moves are under way or after they are complete."""

        def cancel() -> None:
            if self.running:
                topics = self._view.image.topics
                targets = {where: path for where, path in origins.items() if where.topic_id in topics}
                self._request(broker_id, targets, self._later)

        self._client.later(self._random.random() ** 3 * LONGEST_CANCELLED_MS, cancel)

    def _request(self, broker_id: int, targets: Targets, then: Callable[[], None]) -> None:
        def responded(response: Message | None) -> None:
            if response is None:
                self._recorder.counts["moves without response"] += 1
            else:
                for code in [code for code, _ in errors_in(response)] or [ErrorCode.NONE]:
                    self._recorder.counts[f"moves: {ErrorCode(code).name}"] += 1
            then()

        request = move_request(self._view, targets)
        self._client.call(broker_id, request, self._random.choice(VERSIONS), responded, purpose="move")


class LastMoves:
    """Moves every replica to a drawn directory of its broker. Some brokers lose power once they have confirmed the
    moves: a confirmed move completes, whatever happens to the process."""

    def __init__(self, client: BrokerClient, cluster: Cluster, view: ClusterView) -> None:
        self._client = client
        self._cluster = cluster
        self._view = view
        self._wanted: dict[int, dict[PartitionId, str]] = {}
        self._confirmed: dict[int, None] = {}

    def start(self) -> None:
        """Request the moves from all brokers; some brokers begin other moves first, which these cancel."""
        random = self._client.random
        for broker_id in self._cluster.broker_ids:
            paths = list(self._cluster.machines[broker_id].log_directories)
            wanted = {where: random.choice(paths) for where in replicas_of(self._view, broker_id)}
            self._wanted[broker_id] = wanted
            recorded = recorded_paths(self._cluster, self._view, broker_id, wanted)
            others = {
                where: random.choice([each for each in paths if each != path])
                for where, path in recorded.items()
                if path == wanted[where]
            }
            if others and random.random() < LAST_CANCELLATIONS:
                self._begin_and_cancel(broker_id, others)
            else:
                self._request(broker_id)

    def _begin_and_cancel(self, broker_id: int, targets: Targets) -> None:
        """Begin moves, and cancel them by the last moves once the controller has recorded a new directory; the move
        of its replica may not be complete by then."""

        def await_record(remaining_ms: float, response: Message | None = None) -> None:
            recorded = recorded_paths(self._cluster, self._view, broker_id, targets)
            if remaining_ms <= 0 or any(recorded.get(each) == path for each, path in targets.items()):
                self._request(broker_id)
            else:
                again = partial(await_record, remaining_ms - RECORD_CHECK_MS)
                self._client.later(RECORD_CHECK_MS, again)

        request, begun = move_request(self._view, targets), partial(await_record, LONGEST_CANCELLED_MS)
        self._client.call(broker_id, request, 2, begun, purpose="last move")

    def _request(self, broker_id: int) -> None:
        targets = self._wanted[broker_id]
        if not targets:
            self._confirmed[broker_id] = None
            return

        def responded(response: Message | None) -> None:
            if response is None or errors_in(response):
                self._client.later(BACKOFF_MS, partial(self._request, broker_id))
            else:
                self._confirm(broker_id)

        self._client.call(broker_id, move_request(self._view, targets), 2, responded, purpose="last move")

    def _confirm(self, broker_id: int) -> None:
        self._confirmed[broker_id] = None
        if broker_id >= FIRST_BROKER and self._client.random.random() < POWER_LOSSES:
            self._cluster.counters["power losses amid moves"] += 1
            self._cluster.lose_power(broker_id)
            self._cluster.restart_later(broker_id)

    def missing(self) -> str:
        """Describe a move that is not complete, "" if all are."""
        for broker_id, targets in self._wanted.items():
            if broker_id not in self._confirmed:
                return f"broker {broker_id} has not confirmed the moves of its replicas"
            machine = self._cluster.machines[broker_id]
            for where, path in targets.items():
                problem = self._problem(machine, where, path)
                if problem:
                    return f"{problem}; it was to move to {path}"
        return ""

    def _problem(self, machine: Machine, where: PartitionId, path: str) -> str:
        node, topic = machine.node, self._view.image.topics.get(where.topic_id)
        row = self._view.row(where)
        if topic is None or row is None or machine.node_id not in row.replicas:
            return ""
        role = node.broker if node is not None else None
        broker = role.broker if role is not None else None
        hosted = broker.partitions.hosted(where) if broker is not None else None
        name = f"replica {machine.node_id} of {topic.name}-{where.number}"
        if hosted is None or hosted.future is not None or hosted.directory.path != path:
            return f"{name} is in {hosted.directory.path if hosted is not None else 'no directory'}"
        recorded = row.directories[row.replicas.index(machine.node_id)]
        if recorded != machine.log_directories[path]:
            return f"{name} has directory {recorded} in the metadata"
        ending = f"/{topic.name}-{where.number}"
        found = {
            file.rpartition("/")[0].rpartition("/")[0]
            for file in machine.disk.contents()
            if file.rpartition("/")[0].endswith(ending)
        }
        return "" if found == {path} else f"{name} has partition directories in {sorted(found)}"
