"""Changes of configs, drawn from a seed, for which a stock controller's verdicts are recorded and compared.

They cover boundaries of every config of topics, groups and client metrics, values of the wrong type, changes of
lists, and configs that exclude each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from quorumd.controller.config_table import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    ConfigDefinition,
    ConfigType,
)
from quorumd.protocol.config_resource_type import ConfigResourceType

DATA = Path(__file__).parents[1] / "data"
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, CLIENT_METRICS, GROUP = (
    int(kind)
    for kind in (
        ConfigResourceType.TOPIC,
        ConfigResourceType.BROKER,
        ConfigResourceType.CLIENT_METRICS,
        ConfigResourceType.GROUP,
    )
)
TABLES = {TOPIC: TOPIC_CONFIGS, GROUP: GROUP_CONFIGS, CLIENT_METRICS: CLIENT_METRICS_CONFIGS}
ALTER, REPLACE, CREATE = "alter", "replace", "create"
BASES: dict[int, tuple[dict[str, str], ...]] = {
    TOPIC: (
        {},
        {"min.compaction.lag.ms": "1000", "cleanup.policy": "compact"},
        {"retention.ms": "5000", "retention.bytes": "5000", "cleanup.policy": "delete"},
    ),
    GROUP: ({}, {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "15000"}),
    CLIENT_METRICS: ({}, {"metrics": "a,b", "interval.ms": "1000", "match": "client_id=a"}),
    BROKER: ({},),
}
REMOTE_BASES = (
    {"remote.storage.enable": "true"},
    {"remote.storage.enable": "true", "retention.ms": "5000", "retention.bytes": "5000"},
)
_WORDS = ("", " ", "abc", "true", "FALSE", " True ", "yes", "1.5", "-1", "0", "1", "+7", " 7 ", "007", "0x10", "1e3",
          "NaN", "Infinity", "1_0", "\u0661", "null", "*", "0:1", "0:1,1:2", "a,b", "a,,b", ",", "a,", " a , b ",
          "a,a")  # fmt: skip
_PATTERNS = ("client_id=a", "client_id=a.*,client_software_name=j", "client_id", "client_id=", "=a", "client_id=a=b",
             "client_id=a=", "clientid=a", " client_id = a ", "client_id=[", "client_id=(a",
             "client_id=\\p{Alpha}")  # fmt: skip
_RESETS = ("earliest", "latest", "none", "EARLIEST", "by_duration:P1D", "by_duration:PT1H", "by_duration:-PT1H",
           "by_duration:PT-1H", "by_duration:", "by_duration", "by_duration:P", "by_duration:PT",
           "by_duration:pt1.5s", "by_duration:P1M", "by_duration:PT0S")  # fmt: skip
_NAMES = (
    "no.such.config",
    "metrics",
    "retention.ms",
    "consumer.session.timeout.ms",
    "log.retention.ms",
    "internal",
)
_RELATED = {
    TOPIC: ("min.compaction.lag.ms", "max.compaction.lag.ms", "retention.ms", "retention.bytes", "local.retention.ms",
            "local.retention.bytes", "remote.copy.lag.ms", "remote.copy.lag.bytes", "remote.storage.enable",
            "remote.log.copy.disable", "remote.log.delete.on.disable", "cleanup.policy"),
    GROUP: ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "share.session.timeout.ms",
            "share.heartbeat.interval.ms", "streams.session.timeout.ms", "streams.heartbeat.interval.ms"),
    CLIENT_METRICS: ("metrics", "interval.ms", "match"),
}  # fmt: skip

Operation = tuple[str, int, str | None]


@dataclass(frozen=True)
class Case:
    """One change of the configs of a resource."""

    kind: int
    form: str
    base: dict[str, str]
    """The configs that the resource has before."""
    operations: tuple[Operation, ...]
    remote: bool = False
    """Whether the cluster has tiered storage."""

    def row(self, verdict: int) -> str:
        """Format a line of a file of verdicts."""
        fields = [self.kind, self.form, self.base, self.operations, self.remote, verdict]
        return json.dumps(fields, separators=(",", ":"))


def recorded(path: Path) -> Iterator[tuple[Case, int]]:
    """Read cases with the error codes that a stock controller returned for them."""
    for line in path.read_text(encoding="utf-8").splitlines():
        kind, form, base, operations, remote, verdict = json.loads(line)
        yield Case(kind, form, base, tuple(tuple(operation) for operation in operations), remote), verdict


def cases(seed: int, count: int) -> list[Case]:
    """Return all boundaries once, then random cases up to `count`."""
    found = list(_boundaries())
    random = Random(seed)
    while len(found) < count:
        found.append(_drawn(random))
    return found


def _boundaries() -> Iterator[Case]:
    for kind, table in TABLES.items():
        for name, definition in table.items():
            for value in dict.fromkeys(values_of(name, definition)):
                yield Case(kind, ALTER, {}, ((name, SET, value),))
            yield Case(kind, ALTER, {}, ((name, DELETE, None),))
            yield Case(kind, ALTER, {}, ((name, APPEND, "a"),))
        for name in _NAMES:
            yield Case(kind, ALTER, {}, ((name, SET, "1"),))
            yield Case(kind, REPLACE, BASES[kind][1], ((name, SET, "1"),))
    for name in ("cleanup.policy", "metrics", "match", "streams.rack.aware.assignment.tags"):
        kind = next(kind for kind, table in TABLES.items() if name in table)
        for base in BASES[kind]:
            for operation in (APPEND, SUBTRACT):
                for value in (
                    "",
                    ",",
                    "compact",
                    "delete",
                    "delete,compact",
                    "a",
                    "a,b",
                    "c",
                    " c",
                    "client_id=b",
                ):
                    yield Case(kind, ALTER, base, ((name, operation, value),))
    for name in ("log.cleanup.policy", "log.retention.ms", "made.up", "ssl.keystore.password"):
        for operation in (SET, APPEND, SUBTRACT, DELETE):
            yield Case(BROKER, ALTER, {}, ((name, operation, None if operation == DELETE else "a"),))


def values_of(name: str, definition: ConfigDefinition) -> Iterator[str]:
    """Yield boundaries of a config, and values of the wrong type."""
    if definition.default is not None:
        yield definition.default
    bits = {ConfigType.INT: 31, ConfigType.LONG: 63}.get(definition.type)
    if bits is not None:
        for limit in (-(1 << bits), (1 << bits) - 1):
            yield from (str(limit - 1), str(limit), str(limit + 1))
        for bound in _bounds(name, definition):
            yield from (str(bound - 1), str(bound), str(bound + 1))
    elif definition.type is ConfigType.DOUBLE:
        yield from ("0", "1", "1.0001", "-0.0001", "1e-2", ".5", "5.", "0.5f", "0x1p-1", "-NaN", "1e400")
    elif definition.type is not ConfigType.BOOLEAN:
        _, _, choices = definition.rule.partition("=")
        yield from (*choices.split(","), choices, choices.upper())
        yield from {"match": _PATTERNS, "share.auto.offset.reset": _RESETS}.get(name, ())
        yield from ("__dlq", "_dlq", "sticky")
    yield from _WORDS


def _bounds(name: str, definition: ConfigDefinition) -> Iterator[int]:
    yield from (int(part) for part in definition.rule.replace("|", ":").split(":") if part)
    protocol, _, rest = name.partition(".")
    for side in ("min", "max"):
        bound = BROKER_CONFIGS.get(f"group.{protocol}.{side}.{rest.removeprefix('num.')}")
        if bound is not None:
            yield int(bound.default or 0)
    if name == "interval.ms":
        yield from (100, 3_600_000)


def _drawn(random: Random) -> Case:
    """Draw a change of several configs that may exclude each other, in one of the forms."""
    kind = random.choice((TOPIC, TOPIC, TOPIC, GROUP, CLIENT_METRICS))
    remote = kind == TOPIC and random.random() < 0.5
    form = random.choice((ALTER, ALTER, REPLACE, CREATE) if kind == TOPIC else (ALTER, REPLACE))
    base = random.choice(REMOTE_BASES if remote else BASES[kind]) if form != CREATE else {}
    names = random.sample(_RELATED[kind], min(len(_RELATED[kind]), random.randint(1, 6)))
    if remote and random.random() < 0.5 and "remote.storage.enable" not in names:
        names.append("remote.storage.enable")
    operations: list[Operation] = []
    for name in names:
        if form == ALTER and random.random() < 0.1:
            operations.append((name, DELETE, None))
        else:
            operations.append((name, SET, _value(random, name, TABLES[kind][name])))
    return Case(kind, form, base, tuple(operations), remote)


def _value(random: Random, name: str, definition: ConfigDefinition) -> str | None:
    if random.random() < 0.02:
        return None
    if definition.type is ConfigType.BOOLEAN:
        return random.choice(("true", "true", "false"))
    if name == "cleanup.policy":
        return random.choice(("delete", "compact", "delete,compact", ""))
    if name in _RELATED[GROUP]:
        return str(random.choice((4_999, 5_000, 15_000, 15_001, 44_999, 45_000, 60_000, 60_001)))
    if definition.type in (ConfigType.INT, ConfigType.LONG):
        return str(random.choice((-3, -2, -1, 0, 1, 99, 1000, 4999, 5000, 5001, 10_000)))
    choices: Sequence[str] = _PATTERNS if name == "match" else _WORDS
    return random.choice(choices)
