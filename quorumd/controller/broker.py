"""The registration of a broker in the metadata log."""

from __future__ import annotations

from typing import Final, NamedTuple

from quorumd.ids import ZERO_UUID, KafkaUuid

MIGRATING: Final = ZERO_UUID
"""The directory of a replica from before its broker reported directories (KIP-858)."""
UNASSIGNED: Final = KafkaUuid(bytes(15) + b"\x01")
"""The directory of a new replica: its broker chooses one and reports it."""
LOST: Final = KafkaUuid(bytes(15) + b"\x02")
"""The directory of a replica whose broker lost its log directory."""


class BrokerEndpoint(NamedTuple):
    """The endpoint of a broker's listener. `security_protocol`: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    name: str
    host: str
    port: int
    security_protocol: int


class BrokerFeature(NamedTuple):
    """The levels of a feature that a broker supports."""

    name: str
    min_level: int
    max_level: int


class Broker(NamedTuple):
    """An immutable registration.

    `epoch` identifies one incarnation of the broker, a start of its process with this `incarnation_id` (KIP-631,
    KIP-903). A fenced broker, or one in controlled shutdown, cannot join an ISR or be elected. `cordoned`:
    directories that take no new replicas (KIP-1066), None until the broker reports them. `is_migrating`: whether the
    broker was migrating from ZooKeeper (KIP-866, Kafka 3.x); stored for other readers.
    """

    id: int
    epoch: int
    incarnation_id: KafkaUuid
    endpoints: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...]
    rack: str | None
    is_fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[KafkaUuid, ...]
    cordoned: tuple[KafkaUuid, ...] | None = None
    is_migrating: bool = False

    @property
    def canonical(self) -> Broker:
        """Return the canonical form: Kafka's controllers write endpoints and features in any order."""
        return self._replace(endpoints=tuple(sorted(self.endpoints)), features=tuple(sorted(self.features)))

    @property
    def is_active(self) -> bool:
        """Whether the broker may be in an ISR and lead partitions."""
        return not self.is_fenced and not self.in_controlled_shutdown

    @property
    def is_cordoned(self) -> bool:
        """Whether every directory is cordoned: no new replica is placed on this broker."""
        cordoned = self.cordoned or ()
        return bool(self.directories) and all(directory in cordoned for directory in self.directories)

    def endpoint(self, listener: str) -> BrokerEndpoint | None:
        """Return the endpoint of a listener, None if the broker has none."""
        return next((each for each in self.endpoints if each.name == listener), None)

    def has_online_dir(self, directory: KafkaUuid) -> bool:
        """Whether the directory is online; True if the broker has not reported its directories yet."""
        if directory in (MIGRATING, UNASSIGNED):
            return True
        return directory != LOST and (not self.directories or directory in self.directories)
