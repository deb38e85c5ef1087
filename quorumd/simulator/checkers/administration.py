"""The configs and topics that only administrators change, compared with what nodes report.

The model is built only from requests and responses: it shares no code with the controller and reads no log. A request
without a response, or with a response that leaves its outcome open, may take effect at any later time, or never.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from quorumd.broker.api.topic_messages import INTERNAL_TOPICS
from quorumd.errors import ErrorCode
from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.protocol.messages.alter_configs_request import AlterConfigsRequest
from quorumd.protocol.messages.alter_configs_response import AlterConfigsResponse
from quorumd.protocol.messages.create_partitions_request import CreatePartitionsRequest
from quorumd.protocol.messages.create_partitions_response import CreatePartitionsResponse
from quorumd.protocol.messages.create_topics_request import CreateTopicsRequest
from quorumd.protocol.messages.create_topics_response import CreateTopicsResponse
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest
from quorumd.protocol.messages.delete_topics_response import DeleteTopicsResponse
from quorumd.protocol.messages.describe_configs_response import DescribeConfigsResponse, DescribeConfigsResult
from quorumd.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from quorumd.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from quorumd.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.administered_register import ANY, OPEN_OUTCOMES, Register, Value, Write
from quorumd.simulator.checkers.base import InvariantViolation

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
ALL_BROKERS: Final = (BROKER, "")
OWN_SOURCES: Final = {TOPIC: 1, BROKER: 2, CLIENT_METRICS: 7, GROUP: 8}
ALL_BROKERS_SOURCE, BUILT_IN_SOURCE = 3, 5
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
"""The controller sets it for all brokers, and deletes it for one, when ELR is enabled."""
TOPIC_DEFAULTS: Final = {
    "retention.ms": ("log.retention.ms", "604800000"),
    "max.message.bytes": ("message.max.bytes", "1048588"),
    "flush.ms": ("log.flush.interval.ms", "9223372036854775807"),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms", "86400000"),
}
"""The broker config that sets the default of each topic config, and the built-in default, as Kafka documents them."""
LISTS: Final = frozenset({"metrics", "match"})
"""Configs whose items are added and removed one by one; no item is added twice."""
REPEATED: Final = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_PARTITIONS,
    }
)
"""Errors of a request without effect, or of a second attempt that a node made after the first had taken effect."""

Resource = tuple[int, str]


class Effect(NamedTuple):
    """A write of a request, and the resource whose error code decides its outcome."""

    resource: Resource
    register: Register
    write: Write


class Requested(NamedTuple):
    """A request of an administrator."""

    request: Message
    requested_ms: float
    effects: list[Effect]


class AdministratorsAreObeyed:
    """Reads return what administrators set, and nothing that they deleted or that was refused.

    DescribeConfigs, and errors about the existence of a topic, are linearizable; Metadata is committed, but
    may be stale ("Staleness of reads" in docs/decisions.md).
    """

    invariant = "administrators read what they have set"

    def __init__(self) -> None:
        self.checked = 0
        """The number of values compared."""
        self._configs: dict[Resource, dict[str, Register]] = {}
        self._items: dict[Resource, dict[str, Register]] = {}
        """Items of list configs, by resource and "config=item"."""
        self._topics: dict[str, Register] = {}
        """The ids of topics."""
        self._partitions: dict[str, Register] = {}

    @property
    def resources(self) -> list[Resource]:
        """The resources whose configs administrators have requested to change."""
        return sorted({*self._configs, *self._items})

    @property
    def topics(self) -> list[str]:
        return sorted(self._topics)

    def items(self, resource: Resource, name: str) -> list[str]:
        """Return the items that administrators have added to a list config of a resource."""
        found = (item.partition("=") for item in self._items.get(resource, {}))
        return [item for config, _, item in found if config == name]

    def requested(self, request: Message, now_ms: float) -> Requested:
        """Record a request that is about to be sent."""
        effects: list[Effect] = []
        if isinstance(request, IncrementalAlterConfigsRequest) and not request.validate_only:
            for changed in request.resources:
                resource = (changed.resource_type, changed.resource_name)
                for each in changed.configs:
                    effects += self._alter(resource, each.name, each.config_operation, each.value, now_ms)
        elif isinstance(request, AlterConfigsRequest) and not request.validate_only:
            for replaced in request.resources:
                resource = (replaced.resource_type, replaced.resource_name)
                effects += self._replace(resource, {c.name: c.value for c in replaced.configs}, now_ms)
        elif isinstance(request, CreateTopicsRequest) and not request.validate_only:
            for topic in request.topics:
                configs = {config.name: config.value for config in topic.configs}
                count = topic.num_partitions if topic.num_partitions > 0 else len(topic.assignments) or 1
                effects += self._recreate(topic.name, ANY, count, configs, now_ms)
        elif isinstance(request, DeleteTopicsRequest):
            names = {*request.topic_names}
            for deleted in request.topics:
                names |= {deleted.name} if deleted.name is not None else self._names(deleted.topic_id)
            for name in sorted(names):
                effects += self._recreate(name, None, None, {}, now_ms)
        elif isinstance(request, CreatePartitionsRequest) and not request.validate_only:
            for grown in request.topics:
                register = self._partitions.setdefault(grown.name, Register())
                effects.append(Effect((TOPIC, grown.name), register, register.write(grown.count, now_ms)))
        return Requested(request, now_ms, effects)

    def responded(self, requested: Requested, response: Message, now_ms: float) -> None:
        """Record the response to a request. Raises InvariantViolation."""
        codes: dict[Resource, int] = {}
        missing = int(ErrorCode.UNKNOWN_SERVER_ERROR)
        if isinstance(response, IncrementalAlterConfigsResponse | AlterConfigsResponse):
            codes = {(r.resource_type, r.resource_name): r.error_code for r in response.responses}
        elif isinstance(response, CreateTopicsResponse):
            codes = {(TOPIC, topic.name): topic.error_code for topic in response.topics}
            ids = {t.name: str(t.topic_id) for t in response.topics if t.topic_id != ZERO_UUID}
            for effect in requested.effects:
                if effect.write.value == ANY and effect.resource[1] in ids:
                    effect.write.value = ids[effect.resource[1]]
        elif isinstance(response, DeleteTopicsResponse):
            codes = {(TOPIC, t.name): t.error_code for t in response.responses if t.name is not None}
            if not OPEN_OUTCOMES.intersection(topic.error_code for topic in response.responses):
                missing = int(ErrorCode.UNKNOWN_TOPIC_ID)
        elif isinstance(response, CreatePartitionsResponse):
            codes = {(TOPIC, result.name): result.error_code for result in response.results}
        elif isinstance(response, DescribeConfigsResponse):
            for result in response.results:
                self.described(result, requested.requested_ms, now_ms)
        for effect in requested.effects:
            code = codes.get(effect.resource, missing)
            effect.register.responded(effect.write, code, REPEATED, now_ms)
        self._existence(requested, codes, now_ms)

    def described(self, result: DescribeConfigsResult, requested_ms: float, now_ms: float) -> None:
        """Check the configs of a resource in a response to DescribeConfigs. Raises InvariantViolation."""
        resource = (result.resource_type, result.resource_name)
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and resource[0] == TOPIC:
            self._exists(resource[1], False, requested_ms, now_ms)
        if result.error_code:
            return
        if resource[0] == TOPIC:
            self._exists(resource[1], True, requested_ms, now_ms)
        source = ALL_BROKERS_SOURCE if resource == ALL_BROKERS else OWN_SOURCES[resource[0]]
        own = {
            synonym.name: synonym.value
            for config in result.configs
            for synonym in config.synonyms
            if synonym.source == source
        }
        for name, register in self._configs.get(resource, {}).items():
            if name not in LISTS:
                self._expect(register, own.get(name), f"{name} of {resource}", requested_ms, now_ms)
        items = {item for name in LISTS for item in _named_items(name, own.get(name))}
        for item, register in self._items.get(resource, {}).items():
            value = item if item in items else None
            self._expect(register, value, f"{item} of {resource}", requested_ms, now_ms)
        unknown = [name for name in own if name not in self._configs.get(resource, {}) and name not in LISTS]
        unknown += [item for item in items if item not in self._items.get(resource, {})]
        if unknown and (resource[0] != BROKER or unknown != [MIN_INSYNC_REPLICAS]):
            raise self._violation(f"{unknown} of {resource} is set, which no administrator requested")
        if resource[0] == TOPIC:
            self._check_defaults(result, requested_ms, now_ms)

    def listed(self, response: MetadataResponse, requested_ms: float, now_ms: float) -> None:
        """Check the metadata of all topics that a node with the whole committed log returned. Raises
        InvariantViolation."""
        found = {topic.name or "": topic for topic in _requested(response)}
        for name in sorted({*found, *self._topics}):
            topic, register = found.get(name), self._topics.get(name)
            if register is None:
                raise self._violation(f"topic {name} exists, which no administrator requested")
            topic_id = str(topic.topic_id) if topic is not None else None
            self._expect(register, topic_id, f"the id of topic {name}", requested_ms, now_ms)
            count = len(topic.partitions) if topic is not None else None
            counts = self._partitions.get(name, Register())
            self._expect(counts, count, f"the partitions of topic {name}", requested_ms, now_ms)

    def seen(self, response: MetadataResponse) -> None:
        """Check the metadata of any node, which may be stale. Raises InvariantViolation."""
        for topic in _requested(response):
            register = self._topics.get(topic.name or "")
            if register is None or not register.read_committed(str(topic.topic_id)):
                raise self._violation(f"a node reports topic {topic.name} with id {topic.topic_id}")
            register.bind(str(topic.topic_id))

    # Effects of requests

    def _names(self, topic_id: KafkaUuid) -> set[str]:
        """Return the name of the topic with this id, or all names that it may have if no response has shown the
        id."""
        for value in (str(topic_id), ANY):
            names = {
                name
                for name, register in self._topics.items()
                if any(write.value == value for write in register.writes)
            }
            if names:
                return names
        return set()

    def _alter(
        self, resource: Resource, name: str, operation: int, value: str | None, now_ms: float
    ) -> Iterable[Effect]:
        if resource[0] == BROKER and name == MIN_INSYNC_REPLICAS:
            return
        if name in LISTS:
            items = self._items.setdefault(resource, {})
            if operation == DELETE:
                for item, register in items.items():
                    if item.startswith(f"{name}="):
                        yield Effect(resource, register, register.write(None, now_ms))
            for item in _named_items(name, value) if operation in (APPEND, SUBTRACT) else ():
                register = items.setdefault(item, Register())
                written = item if operation == APPEND else None
                yield Effect(resource, register, register.write(written, now_ms))
            return
        register = self._configs.setdefault(resource, {}).setdefault(name, Register())
        yield Effect(resource, register, register.write(value if operation == SET else None, now_ms))

    def _replace(
        self, resource: Resource, configs: Mapping[str, str | None], now_ms: float
    ) -> Iterable[Effect]:
        """Yield the effects of making these the only configs of a resource."""
        known = self._configs.setdefault(resource, {})
        for name in sorted({*configs, *known}):
            yield from self._alter(resource, name, SET, configs.get(name), now_ms)
        for name in sorted(LISTS):
            yield from self._alter(resource, name, DELETE, None, now_ms)

    def _recreate(
        self,
        name: str,
        topic_id: str | None,
        partitions: int | None,
        configs: Mapping[str, str | None],
        now_ms: float,
    ) -> Iterable[Effect]:
        """Yield the effects of creating or deleting a topic."""
        resource = (TOPIC, name)
        ids = self._topics.setdefault(name, Register())
        counts = self._partitions.setdefault(name, Register())
        yield Effect(resource, ids, ids.write(topic_id, now_ms))
        yield Effect(resource, counts, counts.write(partitions, now_ms))
        yield from self._replace(resource, configs, now_ms)

    # Comparisons

    def _existence(self, requested: Requested, codes: Mapping[Resource, int], now_ms: float) -> None:
        """Check what the errors of a response imply about the existence of topics."""
        creates = isinstance(requested.request, CreateTopicsRequest)
        for (kind, name), code in codes.items():
            if kind != TOPIC or name not in self._topics:
                continue
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._exists(name, False, requested.requested_ms, now_ms)
            elif code == ErrorCode.TOPIC_ALREADY_EXISTS and creates:
                self._exists(name, True, requested.requested_ms, now_ms)

    def _exists(self, name: str, exists: bool, requested_ms: float, now_ms: float) -> None:
        register = self._topics.setdefault(name, Register())
        if not register.read_presence(exists, requested_ms, now_ms):
            text = "exists" if exists else "does not exist"
            raise self._violation(
                f"a response implies that topic {name} {text}; its id may be {register.possible(requested_ms)}"
            )
        self.checked += 1

    def _expect(
        self, register: Register, value: Value, what: str, requested_ms: float, now_ms: float
    ) -> None:
        if not register.read(value, requested_ms, now_ms):
            raise self._violation(
                f"{what} is {value!r} in a response to a request of {requested_ms:.1f} ms; possible are "
                f"{register.possible(requested_ms)}"
            )
        self.checked += 1

    def _check_defaults(self, result: DescribeConfigsResult, requested_ms: float, now_ms: float) -> None:
        """Check the effective values of topic configs and their synonyms."""
        found = {config.name: config for config in result.configs}
        for name, (broker_name, built_in) in TOPIC_DEFAULTS.items():
            config = found.get(name)
            if config is None:
                raise self._violation(f"topic {result.resource_name} has no {name}")
            values = [(synonym.source, synonym.value) for synonym in config.synonyms]
            sources = [source for source, _ in values]
            if sources != sorted(sources) or values[:1] != [(config.config_source, config.value)]:
                raise self._violation(f"{name} of topic {result.resource_name} is {config!r}")
            if values[-1] != (BUILT_IN_SOURCE, built_in):
                raise self._violation(f"the built-in {name} is {built_in}, not {values[-1]}")
            cluster_wide = dict(values).get(ALL_BROKERS_SOURCE)
            register = self._configs.get(ALL_BROKERS, {}).get(broker_name, Register())
            self._expect(register, cluster_wide, f"{broker_name} of all brokers", requested_ms, now_ms)

    def _violation(self, text: str) -> InvariantViolation:
        return InvariantViolation(self.invariant, text)


def _named_items(name: str, value: str | None) -> list[str]:
    return [f"{name}={item}" for item in (value or "").split(",") if item]


def _requested(response: MetadataResponse) -> list[MetadataResponseTopic]:
    """Return the topics in the response, except the internal topics of brokers."""
    return [topic for topic in response.topics if topic.name not in INTERNAL_TOPICS]
