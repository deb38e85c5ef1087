"""Parses the options of the source on the driver; they are documented in `quorumd.pipeline`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from quorumd.client.security import ClientSecurity
from quorumd.errors import ConfigError
from quorumd.pipeline.copies.log_files import parse_directories
from quorumd.pipeline.live.observer import DEFAULT_TIMEOUT_S, Observer
from quorumd.pipeline.live.security import read_security
from quorumd.pipeline.tables import schemas
from quorumd.pipeline.tables.schemas import Table

FAIL, SKIP, REPORT = "fail", "skip", "report"
MAX_OFFSET = 2**63 - 1
MAX_PACK = 256 * 1024 * 1024
MIN_PACK = 16 * 1024 * 1024
_NAMES = {
    name.lower(): name
    for name in (
        "path", "bootstrap", "level", "lists", "startingOffset", "endingOffset", "startingTimestamp",
        "endingTimestamp", "onCorrupt", "committedOnly", "maxOffsetsPerTrigger", "packBytes", "splitBytes",
        "timeoutMs", "commandConfig",
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers in [low, high)."""

    low: int = 0
    high: int = MAX_OFFSET

    def __and__(self, other: Interval) -> Interval:
        return Interval(max(self.low, other.low), min(self.high, other.high))

    @property
    def is_empty(self) -> bool:
        return self.low >= self.high

    def meets(self, low: int, high: int) -> bool:
        """Return True if it overlaps [low, high)."""
        return max(self.low, low) < min(self.high, high)


EVERY_OFFSET = Interval()
EVERY_EPOCH = Interval(-(2**31), 2**31)
EVERY_TIME = Interval(-(2**63), 2**63)
"""Times and epochs of batches may be negative: usually -1, for unknown."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The requested part of the logs: data outside need not be read and is not returned."""

    nodes: frozenset[int] | None = None
    """None for all."""
    offsets: Interval = EVERY_OFFSET
    epochs: Interval = EVERY_EPOCH
    times: Interval = EVERY_TIME
    """Unix milliseconds."""

    def has_node(self, node: int) -> bool:
        return self.nodes is None or node in self.nodes

    def __and__(self, other: Selection) -> Selection:
        nodes = self.nodes if other.nodes is None else other.nodes
        if self.nodes is not None and other.nodes is not None:
            nodes = self.nodes & other.nodes
        return Selection(
            nodes, self.offsets & other.offsets, self.epochs & other.epochs, self.times & other.times
        )


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Validated options: either `directories` by node, or `bootstrap` addresses."""

    directories: dict[int, str]
    bootstrap: tuple[tuple[str, int], ...]
    level: str
    packed: bool
    selection: Selection
    on_corrupt: str
    committed_only: bool
    max_offsets_per_trigger: int | None
    pack_bytes: int | None
    split_bytes: int | None
    timeout_s: float
    """The limit for a request to a live cluster, including retries."""
    command_config: str
    """The path of a file with Kafka's client properties; "" connects without TLS and SASL."""

    def security(self) -> ClientSecurity:
        """Read the security of connections to a live cluster. Raises ConfigError, RequestFailed."""
        return read_security(self.command_config)

    def observer(
        self,
        addresses: Sequence[tuple[str, int]] | None = None,
        *,
        committed_only: bool = True,
        report: Callable[[str], None] = lambda text: None,
    ) -> Observer:
        """Return an observer of the live cluster, which the caller closes."""
        return Observer(
            addresses or self.bootstrap,
            self.security(),
            committed_only=committed_only,
            timeout_s=self.timeout_s,
            report=report,
        )

    @property
    def is_live(self) -> bool:
        return bool(self.bootstrap)

    @property
    def table(self) -> Table:
        """The columns that the source returns by default."""
        table = schemas.LEVELS[self.level]
        return table.packed() if self.packed else table

    def select(self, columns: Iterable[tuple[str, str]]) -> Table:
        """Return the table of some columns, given by name and type in Spark's short form (`array<int>`).

        Raises ConfigError for an unknown column or a different type.
        """
        table, found = self.table, []
        types = {column.name: column.type for column in table.columns}
        for name, type_ in columns:
            expected = types.get(name)
            if expected is None:
                raise ConfigError(
                    f"level {self.level} has no column {name!r}; it has {', '.join(table.names)}"
                )
            # DDL has a blank after the colon in a struct's fields, unlike Spark's short form.
            if expected.lower().replace(" ", "") != type_.lower().replace(" ", ""):
                raise ConfigError(
                    f"column {name} of level {self.level} is {expected}, not {type_.upper()}; "
                    "a schema may leave out columns, and cast them afterwards"
                )
            found.append(name)
        return table.select(tuple(found))

    def sizes(self, total_bytes: int) -> tuple[int, int]:
        """Return the bytes up to which small pieces share a task, and above which a file is split.

        The defaults give each core of this machine a few tasks, within bounds.
        """
        share = total_bytes // (4 * (os.cpu_count() or 1))
        usual = min(max(share, MIN_PACK), MAX_PACK)
        pack = self.pack_bytes or usual
        return pack, self.split_bytes or max(pack, usual)


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Parse and validate options. Raises ConfigError with the option, its value and the valid values."""
    values = {}
    for name, value in given.items():
        if name.lower() not in _NAMES:
            raise ConfigError(
                f"{name!r} is not an option of the source; options are {', '.join(_NAMES.values())}"
            )
        values[_NAMES[name.lower()]] = value
    if ("path" in values) == ("bootstrap" in values):
        raise ConfigError("give either path=ID=DIR,... or bootstrap=HOST:PORT,... to the source")
    level = _choice(values, "level", tuple(schemas.LEVELS))
    if level == schemas.AUDIT.name and "bootstrap" in values:
        raise ConfigError("level audit reads segments in directories: give path instead of bootstrap")
    offsets = Interval(_number(values, "startingOffset", 0), _number(values, "endingOffset", MAX_OFFSET))
    if level == schemas.SNAPSHOT.name and offsets != EVERY_OFFSET:
        raise ConfigError("startingOffset and endingOffset cannot be combined with level snapshot")
    times = Interval(
        _number(values, "startingTimestamp", EVERY_TIME.low),
        _number(values, "endingTimestamp", EVERY_TIME.high),
    )
    return SourceOptions(
        parse_directories(values["path"]) if "path" in values else {},
        parse_bootstrap(values["bootstrap"]) if "bootstrap" in values else (),
        level,
        _choice(values, "lists", ("array", "packed")) == "packed",
        Selection(None, offsets, times=times),
        _choice(values, "onCorrupt", (FAIL, SKIP, REPORT)),
        _choice(values, "committedOnly", ("true", "false")) == "true",
        _number(values, "maxOffsetsPerTrigger", 0, least=1) or None,
        _number(values, "packBytes", 0, least=1) or None,
        _number(values, "splitBytes", 0, least=1) or None,
        _number(values, "timeoutMs", int(DEFAULT_TIMEOUT_S * 1000), least=1) / 1000,
        values.get("commandConfig", ""),
    )


def parse_bootstrap(text: str) -> tuple[tuple[str, int], ...]:
    """Parse `host:port,...`; IPv6 addresses are in brackets. Raises ConfigError."""
    # Imported here because it imports Pydantic, which takes longer than planning most reads.
    from quorumd.config.values import ADDRESSES

    found: list[tuple[str, int]] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            found += ADDRESSES.read(part)
        except ValueError:
            raise ConfigError(f"bootstrap: {part!r} is not HOST:PORT, such as 127.0.0.1:9093") from None
    if not found:
        raise ConfigError("bootstrap lists no address; expected HOST:PORT,... such as 127.0.0.1:9093")
    return tuple(found)


def _choice(values: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = values.get(name, choices[0]).lower()
    if value not in choices:
        raise ConfigError(f"{name} is {values[name]!r}; it must be one of {', '.join(choices)}")
    return value


def _number(values: Mapping[str, str], name: str, default: int, least: int = 0) -> int:
    text = values.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not least <= value <= MAX_OFFSET:
        raise ConfigError(f"{name} is {text!r}; it must be a whole number of {least} or more")
    return value
