"""Changes of any config of any resource to any value, most of them invalid."""

from __future__ import annotations

from random import Random
from typing import Final

from quorumd.controller.cluster_image import MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION
from quorumd.controller.config_table import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    ConfigType,
)
from quorumd.controller.configs import CORDONED_LOG_DIRS, ConfigOperation
from quorumd.protocol.messages.incremental_alter_configs_request import AlterableConfig
from quorumd.simulator.checkers.administration import BROKER, CLIENT_METRICS, GROUP, LISTS, TOPIC, Resource

PARTITION_CONFIGS: Final = (MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION)
"""Configs that change partitions. Here they get only invalid values; operators of clusters with brokers set valid
ones."""
NAMES: Final = {
    TOPIC: tuple(name for name in TOPIC_CONFIGS if name not in PARTITION_CONFIGS),
    BROKER: (*list(BROKER_CONFIGS)[:3], CORDONED_LOG_DIRS),
    CLIENT_METRICS: tuple(CLIENT_METRICS_CONFIGS),
    GROUP: tuple(GROUP_CONFIGS),
}
LIST_NAMES: Final = frozenset(
    name
    for definitions in (TOPIC_CONFIGS, BROKER_CONFIGS, CLIENT_METRICS_CONFIGS, GROUP_CONFIGS)
    for name, definition in definitions.items()
    if definition.type is ConfigType.LIST
)
UNKNOWN_NAMES: Final = ("unknown", "", "\u00fcber")
UNKNOWN_OPERATION: Final = 9
NUMBERS: Final = (
    "0",
    "1",
    "-1",
    "-2",
    "2",
    "1000",
    "50000",
    "99999999999",
    str(1 << 70),
    "+7",
    "1.5",
    "many",
)
DECIMALS: Final = ("0.5", "1e-3f", "0x1p-3", "0x1p99999", "-0x1p99999", "NaN", "Infinity", "half")
TEXTS: Final = (
    "true", "FALSE", "perhaps", "compact,delete", "delete,", "*", "0:101,1:102", "0:", "gzip", "CreateTime",
    "earliest", "by_duration:PT1M0.5S", "by_duration:-PT1S", "by_duration:P", "read_committed", "uniform", "sticky",
    "__dead", "rack,zone", "rack,rack", "client_id=[", "client_id=\\p{Alpha}", "name=x", "=", "", " ",
)  # fmt: skip
ODD_RESOURCES: Final[tuple[Resource, ...]] = (
    (8, "1"), (99, "x"), (TOPIC, ""), (TOPIC, "not valid!"), (TOPIC, "unknown"), (BROKER, "007"), (BROKER, "x"),
    (BROKER, "99999999999"), (GROUP, ""), (CLIENT_METRICS, ""),
)  # fmt: skip


class OddConfigs:
    """Draws resources and changes."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def resource(self) -> Resource:
        """Draw a resource that does not exist or cannot exist."""
        return self._random.choice(ODD_RESOURCES)

    def change(self, kind: int) -> AlterableConfig:
        """Draw a change of a resource of this kind."""
        random = self._random
        if random.random() < 0.1:
            return AlterableConfig(random.choice(UNKNOWN_NAMES), ConfigOperation.SET, "1")
        if kind == BROKER and random.random() < 0.2:
            return AlterableConfig(
                random.choice(PARTITION_CONFIGS), ConfigOperation.SET, random.choice(("-1", "many"))
            )
        name = random.choice(NAMES.get(kind, NAMES[GROUP]))
        value = random.choice(random.choice((NUMBERS, NUMBERS, DECIMALS, TEXTS)))
        if name in LISTS:
            # The administrators' model covers only items that are added and removed one by one.
            return AlterableConfig(
                name, random.choice((ConfigOperation.APPEND, ConfigOperation.DELETE)), None
            )
        operations = [ConfigOperation.SET] * 5 + [ConfigOperation.DELETE, UNKNOWN_OPERATION]
        if name not in LIST_NAMES:
            operations += [ConfigOperation.APPEND, ConfigOperation.SUBTRACT]
        operation = random.choice(operations)
        is_null = operation == ConfigOperation.DELETE or random.random() < 0.05
        return AlterableConfig(name, operation, None if is_null else value)
