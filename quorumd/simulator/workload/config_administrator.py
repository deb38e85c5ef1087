"""An administrator that sets, replaces, deletes and describes configs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Final

from quorumd.protocol.messages import alter_configs_request as replacements
from quorumd.protocol.messages import incremental_alter_configs_request as changes
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers.administration import (
    ALL_BROKERS,
    APPEND,
    BROKER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    AdministratorsAreObeyed,
    Requested,
    Resource,
)
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.workload.odd_configs import OddConfigs
from quorumd.simulator.workload.request_loop import Drawn, RequestLoop

HOST: Final = "10.0.7.1"
NAME: Final = "config administrator"
GENERATION_MS: Final = 3000.0
"""Interval at which names of groups and subscriptions change: after a request without a response, later reads of the
same config prove less, since the request may still take effect."""
DESCRIBE_VERSION: Final = 4
LIST_CONFIGS: Final = {"metrics": "m{}", "match": "client_id=m{}"}
"""List configs of client metrics, and their items."""
CONFIGS: Final = {
    TOPIC: ("retention.ms", "max.message.bytes", "flush.ms"),
    BROKER: ("log.retention.ms", "message.max.bytes", "log.flush.interval.ms"),
    CLIENT_METRICS: ("interval.ms",),
    GROUP: ("streams.initial.rebalance.delay.ms",),
}
FIRST_VALUE: Final = 1000


class ConfigAdministrator(RequestLoop):
    """Sends requests to random nodes, and reports them and their responses to `checker`."""

    def __init__(
        self, cluster: Cluster, random: Random, interval_ms: float, checker: AdministratorsAreObeyed
    ) -> None:
        super().__init__(cluster, HOST, NAME, random, interval_ms)
        self.counters: Counter[str] = Counter()
        self._odd = OddConfigs(random)
        self._checker = checker
        self._values = FIRST_VALUE

    def draw(self) -> Drawn:
        """Draw a description or a change."""
        kinds = (self._describe, self._alter, self._replace, self._alter_any)
        request, version = self._random.choices(kinds, (5, 6, 1, 4))[0]()
        requested = self._checker.requested(request, self._heap.now_ms)
        handle = partial(self._on_response, requested)
        return Drawn(request, version, self._random.choice(self._nodes), handle)

    def _on_response(self, requested: Requested, message: Message | None) -> None:
        name = type(requested.request).__name__.removesuffix("Request")
        if message is None:
            self.counters[f"{name}: no response"] += 1
        else:
            is_error = any(code for code, _ in errors_in(message))
            self.counters[f"{name}: {'error' if is_error else 'success'}"] += 1
            self._checker.responded(requested, message, self._heap.now_ms)

    # Requests

    def _resource(self) -> Resource:
        random, checker = self._random, self._checker
        kinds = (CLIENT_METRICS, GROUP, BROKER) + ((TOPIC, TOPIC) if checker.topics else ())
        kind = random.choice(kinds)
        if kind == TOPIC:
            return kind, random.choice(checker.topics)
        if kind == BROKER:
            return ALL_BROKERS if random.random() < 0.7 else (BROKER, str(random.randrange(1, 4)))
        return kind, f"{int(self._heap.now_ms / GENERATION_MS)}.{random.randrange(2)}"

    def _next_value(self) -> str:
        self._values += 1
        return str(self._values)

    def _describe(self) -> tuple[Message, int]:
        known, random = self._checker.resources, self._random
        wanted = {self._resource(): None} if not known or random.random() < 0.5 else {}
        wanted |= dict.fromkeys(random.sample(known, min(len(known), 1 + random.randrange(3))))
        if random.random() < 0.1:
            wanted |= {self._odd.resource(): None}
        return describe_request(list(wanted)), DESCRIBE_VERSION

    def _alter(self) -> tuple[Message, int]:
        """Change one or two configs of one or two resources; sometimes in an invalid way, or only to validate."""
        random, wire = self._random, changes
        resources = []
        for resource in (
            {self._resource(): None, self._resource(): None}
            if random.random() < 0.3
            else {self._resource(): None}
        ):
            kind = resource[0]
            if kind == CLIENT_METRICS and random.random() < 0.5:
                configs = [self._list_change(resource, random.choice(list(LIST_CONFIGS)))]
            else:
                names = random.sample(CONFIGS[kind], min(len(CONFIGS[kind]), random.choice((1, 1, 2))))
                configs = [self._change(name) for name in names]
                if kind != BROKER and random.random() < 0.1:
                    configs.append(wire.AlterableConfig(f"no.{CONFIGS[kind][0]}", SET, self._next_value()))
            resources.append(wire.AlterConfigsResource(*resource, configs))
        return wire.IncrementalAlterConfigsRequest(resources, random.random() < 0.1), 1

    def _change(self, name: str) -> changes.AlterableConfig:
        if self._random.random() < 0.4:
            return changes.AlterableConfig(name, DELETE, None)
        return changes.AlterableConfig(name, SET, self._next_value())

    def _list_change(self, resource: Resource, name: str) -> changes.AlterableConfig:
        draw, items = self._random.random(), self._checker.items(resource, name)
        if draw < 0.1:
            return changes.AlterableConfig(name, DELETE, None)
        if draw < 0.5 and items:
            return changes.AlterableConfig(name, SUBTRACT, self._random.choice(items))
        added = ",".join(
            LIST_CONFIGS[name].format(self._next_value()) for _ in range(self._random.choice((1, 1, 2)))
        )
        return changes.AlterableConfig(name, APPEND, added)

    def _alter_any(self) -> tuple[Message, int]:
        """Change any configs of any resources to any values: most changes are refused, and must have no effect."""
        random, wire = self._random, changes
        resources = [
            wire.AlterConfigsResource(
                *resource, [self._odd.change(resource[0]) for _ in range(random.choice((1, 1, 2)))]
            )
            for resource in self._any_resources()
        ]
        request = wire.IncrementalAlterConfigsRequest(resources, random.random() < 0.1)
        return request, random.randint(request.MIN_VERSION, request.MAX_VERSION)

    def _any_resources(self) -> list[Resource]:
        random = self._random
        resources = [
            self._odd.resource() if random.random() < 0.25 else self._resource()
            for _ in range(random.choice((1, 1, 2, 5)))
        ]
        if random.random() < 0.1:
            resources.append(resources[0])
        return resources

    def _replace(self) -> tuple[Message, int]:
        resource = self._resource()
        if resource[0] == BROKER:
            # It would remove min.insync.replicas, which is refused with ELR.
            return self._describe()
        names = self._random.sample(CONFIGS[resource[0]], self._random.choice((0, 1)))
        configs = [replacements.AlterableConfig(name, self._next_value()) for name in names]
        return (
            replacements.AlterConfigsRequest(
                [replacements.AlterConfigsResource(*resource, configs)], self._random.random() < 0.1
            ),
            2,
        )


def describe_request(resources: Sequence[Resource]) -> DescribeConfigsRequest:
    """Build a request for all configs of these resources, with their synonyms."""
    return DescribeConfigsRequest(
        [DescribeConfigsResource(*resource, None) for resource in resources], include_synonyms=True
    )
