"""The inputs of the active controller's decisions: image, sessions, settings, time and offsets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from quorumd.controller.broker import UNASSIGNED
from quorumd.controller.broker_sessions import BrokerSessions
from quorumd.controller.cluster_image import ClusterImage
from quorumd.ids import KafkaUuid
from quorumd.security.tokens import TokenHmacs


@dataclass(slots=True)
class ControllerSettings:
    """Settings named after Kafka's properties; times in milliseconds.

    `max_batch_bytes`: limit of all records of one result, framing included. `max_partitions_per_step`: partitions
    that change in one step when a broker joins or leaves, so that a step takes a few hundred milliseconds.
    `leader_imbalance_check_interval_ms`, `max_idle_interval_ms`: 0 for never. `unclean_election_interval_ms`: between
    sweeps over leaderless partitions that allow unclean election. The sweep is a safety net: every change that makes
    a replica electable elects it. `token_*`: of delegation tokens, which an empty `token_secret_key` disables.
    `max_tokens`: limit of tokens that one principal has requested, since every authenticated client may request some.
    """

    broker_session_timeout_ms: float = 9_000.0
    default_replication_factor: int = 1
    num_partitions: int = 1
    min_insync_replicas: int = 1
    remote_storage: bool = False
    max_batch_bytes: int = 8 * 1024 * 1024 - 64 * 1024
    max_partitions_per_step: int = 10_000
    leader_imbalance_check_interval_ms: float = 300_000.0
    unclean_election_interval_ms: float = 300_000.0
    max_idle_interval_ms: float = 500.0
    has_authorizer: bool = False
    token_secret_key: str = field(default="", repr=False)
    token_max_lifetime_ms: int = 7 * 24 * 3600 * 1000
    token_expiry_ms: int = 24 * 3600 * 1000
    token_check_interval_ms: float = 3600 * 1000.0
    max_tokens: int = 10_000


class Controller:
    """State of the active controller.

    `image` is that of the leader's whole log, uncommitted records included. `now_ms()`: monotonic time in
    milliseconds. `wall_ms()`: Unix time in milliseconds. `next_offset()`: offset of the next record to append.
    `new_uuid()`: a random UUID, never a reserved one (KIP-516). `other_voters()`: ids of the voters besides this
    node, which must be registered before a feature changes.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        cluster_id: Callable[[], str | None],
        now_ms: Callable[[], float],
        next_offset: Callable[[], int],
        new_uuid: Callable[[], KafkaUuid],
        wall_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.settings = settings
        self.image = ClusterImage()
        self.sessions = BrokerSessions(settings.broker_session_timeout_ms)
        self.token_hmacs = TokenHmacs(settings.token_secret_key)
        self.cluster_id = cluster_id
        self.now_ms = now_ms
        self.next_offset = next_offset
        self.new_uuid = new_uuid
        self.wall_ms = wall_ms
        self.other_voters: Callable[[], Sequence[int]] = tuple

    @property
    def step(self) -> int:
        """Limit of partitions that change in one step."""
        return self.settings.max_partitions_per_step

    def is_active(self, broker_id: int) -> bool:
        """Whether the broker may be in an ISR and lead partitions."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced and not broker.in_controlled_shutdown

    def directory_of(self, broker_id: int) -> KafkaUuid:
        """Return the directory of a new replica on this broker: its only one, or UNASSIGNED, in which case the broker
        chooses one (KIP-858)."""
        broker = self.image.brokers.get(broker_id)
        return broker.directories[0] if broker is not None and len(broker.directories) == 1 else UNASSIGNED

    def is_online(self, broker_id: int, directory: KafkaUuid) -> bool:
        """Whether the directory is online on this broker."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.has_online_dir(directory)
