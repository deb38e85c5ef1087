"""The options of the source, read once on the driver; what says them is `quorumd.pipeline`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from quorumd.errors import ConfigError
from quorumd.pipeline.copies.log_files import parse_folders
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
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Interval:
    """Whole numbers from `low` to below `high`."""

    low: int = 0
    high: int = MAX_OFFSET

    def __and__(self, other: Interval) -> Interval:
        return Interval(max(self.low, other.low), min(self.high, other.high))

    @property
    def is_empty(self) -> bool:
        return self.low >= self.high

    def meets(self, low: int, high: int) -> bool:
        """Whether it has numbers in common with those from `low` to below `high`."""
        return max(self.low, low) < min(self.high, high)


EVERY_OFFSET = Interval()
EVERY_EPOCH = Interval(-(2**31), 2**31)
EVERY_TIME = Interval(-(2**63), 2**63)
"""Batches may have times and epochs below zero: what nobody knew, as a rule -1."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which part of the logs is asked for: what is outside need not be read, and is not shown."""

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
    """Checked options. `folders` by node, or `bootstrap` addresses; never both."""

    folders: dict[int, str]
    bootstrap: tuple[tuple[str, int], ...]
    level: str
    packed: bool
    selection: Selection
    on_corrupt: str
    committed_only: bool
    max_offsets_per_trigger: int | None
    pack_bytes: int | None
    split_bytes: int | None

    @property
    def is_live(self) -> bool:
        return bool(self.bootstrap)

    @property
    def table(self) -> Table:
        """The columns that the source gives unless asked for fewer."""
        table = schemas.LEVELS[self.level]
        return table.packed() if self.packed else table

    def select(self, columns: Iterable[tuple[str, str]]) -> Table:
        """The table of some columns, given by name and type in Spark's short form (`array<int>`).

        Raises ConfigError for a column that the level does not have, or has with another type.
        """
        table, found = self.table, []
        types = {column.name: column.type for column in table.columns}
        for name, type_ in columns:
            expected = types.get(name)
            if expected is None:
                raise ConfigError(
                    f"level {self.level} has no column {name!r}; it has {', '.join(table.names)}"
                )
            # A struct's fields are told with a blank behind the colon in DDL, and without one by Spark.
            if expected.lower().replace(" ", "") != type_.lower().replace(" ", ""):
                raise ConfigError(
                    f"column {name} of level {self.level} is {expected}, not {type_.upper()}; "
                    "a schema may leave out columns, and cast them afterwards"
                )
            found.append(name)
        return table.select(tuple(found))

    def sizes(self, total_bytes: int) -> tuple[int, int]:
        """Bytes up to which small pieces share a task, and above which a file is split.

        Unless said, as many as give every core of this machine a few tasks, within bounds.
        """
        share = total_bytes // (4 * (os.cpu_count() or 1))
        usual = min(max(share, MIN_PACK), MAX_PACK)
        pack = self.pack_bytes or usual
        return pack, self.split_bytes or max(pack, usual)


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Raises ConfigError that names the option, what it is and what it may be."""
    values = {}
    for name, value in given.items():
        if name.lower() not in _NAMES:
            raise ConfigError(
                f"{name!r} is not an option of the source; options are {', '.join(_NAMES.values())}"
            )
        values[_NAMES[name.lower()]] = value
    if ("path" in values) == ("bootstrap" in values):
        raise ConfigError("give either path=ID=FOLDER,... or bootstrap=HOST:PORT,... to the source")
    level = _choice(values, "level", tuple(schemas.LEVELS))
    if level == schemas.AUDIT.name and "bootstrap" in values:
        raise ConfigError("level audit reads segments in folders: give path instead of bootstrap")
    offsets = Interval(_number(values, "startingOffset", 0), _number(values, "endingOffset", MAX_OFFSET))
    if level == schemas.SNAPSHOT.name and offsets != EVERY_OFFSET:
        raise ConfigError("startingOffset and endingOffset cannot be combined with level snapshot")
    times = Interval(
        _number(values, "startingTimestamp", EVERY_TIME.low),
        _number(values, "endingTimestamp", EVERY_TIME.high),
    )
    return SourceOptions(
        parse_folders(values["path"]) if "path" in values else {},
        parse_bootstrap(values["bootstrap"]) if "bootstrap" in values else (),
        level,
        _choice(values, "lists", ("array", "packed")) == "packed",
        Selection(None, offsets, times=times),
        _choice(values, "onCorrupt", (FAIL, SKIP, REPORT)),
        _choice(values, "committedOnly", ("true", "false")) == "true",
        _number(values, "maxOffsetsPerTrigger", 0, least=1) or None,
        _number(values, "packBytes", 0, least=1) or None,
        _number(values, "splitBytes", 0, least=1) or None,
    )


def parse_bootstrap(text: str) -> tuple[tuple[str, int], ...]:
    """`host:port,...` as addresses; an IPv6 address stands in brackets. Raises ConfigError."""
    # Pydantic, which that is written for, takes longer to import than most readers of a folder need to plan.
    from quorumd.config.values import ADDRESSES

    found: list[tuple[str, int]] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            found += ADDRESSES.read(part)
        except ValueError:
            raise ConfigError(f"bootstrap: {part!r} is not HOST:PORT, such as 127.0.0.1:9093") from None
    if not found:
        raise ConfigError("bootstrap names no address; expected HOST:PORT,... such as 127.0.0.1:9093")
    return tuple(found)


def _choice(values: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = values.get(name, choices[0]).lower()
    if value not in choices:
        raise ConfigError(f"{name} is {values[name]!r}; it may be {', '.join(choices)}")
    return value


def _number(values: Mapping[str, str], name: str, usual: int, least: int = 0) -> int:
    text = values.get(name)
    if text is None:
        return usual
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not least <= value <= MAX_OFFSET:
        raise ConfigError(f"{name} is {text!r}; it must be a whole number of {least} or more")
    return value
