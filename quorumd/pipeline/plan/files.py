"""The directory of a plan.

plan.json               the origin of the plan, and its figures
moves.parquet           schemas.PLAN_MOVES
brokers.parquet         schemas.PLAN_BROKERS
sizes.parquet           topic, partition, bytes: the sizes that a plan by bytes balanced
waves/0001.json ...     Kafka's reassignment JSON, to be executed in order
rollback/0001.json ...  the previous replicas of the same partitions: undoes wave 0001
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

from quorumd.errors import ConfigError, InputIncomplete
from quorumd.output_files import replacing, write_output
from quorumd.pipeline.tables.schemas import PLAN_BROKERS, PLAN_MOVES

VERSION = 1
SUMMARY, MOVES, BROKERS, SIZES, WAVES, ROLLBACK = (
    "plan.json",
    "moves.parquet",
    "brokers.parquet",
    "sizes.parquet",
    "waves",
    "rollback",
)


class Figures(TypedDict):
    """The number and size of the moves of a plan, and the balance before and after."""

    partitions: int
    topics: int
    brokers: int
    changed_partitions: int
    moves: int
    lower_bound: int | None
    bytes: int | None
    lower_bound_bytes: int | None
    waves: int
    before: dict[str, float]
    after: dict[str, float]


class _Summary(BaseModel):
    """The fields of SUMMARY except its version."""

    model_config = ConfigDict(strict=True, extra="forbid")

    made_from: dict[str, object]
    partitions: int
    topics: int
    brokers: int
    changed_partitions: int
    moves: int
    lower_bound: int | None
    bytes: int | None
    lower_bound_bytes: int | None
    waves: int
    before: dict[str, float]
    after: dict[str, float]


@dataclass(frozen=True, slots=True)
class Plan:
    """A partition reassignment plan."""

    moves: pa.Table
    brokers: pa.Table
    figures: Figures
    """The result of `tables.figures`."""
    made_from: dict[str, object]
    """The input of the plan."""
    sizes: pa.Table | None = None
    """The balanced sizes of a new plan by bytes; None for other plans and plans read from files."""

    @property
    def waves(self) -> int:
        return int(self.figures["waves"])

    def of_wave(self, wave: int) -> pa.Table:
        """Return the moves of a wave; waves are numbered from 1."""
        low, high = np.searchsorted(self.moves["wave"].to_numpy(), (wave, wave + 1))
        return self.moves.slice(int(low), int(high - low))


def write_plan(plan: Plan, directory: Path) -> None:
    """Write a plan to a new or empty directory. Raises ConfigError."""
    check_new(directory)
    (directory / WAVES).mkdir(parents=True)
    (directory / ROLLBACK).mkdir()
    for name, table in ((MOVES, plan.moves), (BROKERS, plan.brokers), (SIZES, plan.sizes)):
        if table is not None:
            with replacing(directory / name) as file:
                pq.write_table(table, file, compression="zstd")
    moves = _with_quoted_topics(plan.moves)
    bounds = np.searchsorted(moves["wave"].to_numpy(), np.arange(1, plan.waves + 2)).tolist()
    for wave, (low, high) in enumerate(pairwise(bounds), 1):
        part = moves.slice(low, high - low)
        write_output(wave_file(directory, wave), _reassignment_json(part, "new"))
        write_output(rollback_file(directory, wave), _reassignment_json(part, "old"))
    # Written last: a directory with a summary is complete.
    document = {"version": VERSION, "made_from": plan.made_from, **plan.figures}
    write_output(directory / SUMMARY, json.dumps(document, indent=2) + "\n")


def check_new(directory: Path) -> None:
    """Raise ConfigError if the directory exists and is not empty."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigError(f"{directory} already exists: give a new directory for the plan")


def read_plan_directory(directory: Path) -> Plan:
    """Read the plan in a directory. Raises InputIncomplete if it is missing or incomplete."""
    try:
        document = json.loads((directory / SUMMARY).read_text(encoding="utf-8"))
        if document.pop("version", None) != VERSION:
            raise InputIncomplete(
                f"{directory} is not a plan of version {VERSION}: another version of quorumd wrote it"
            )
        _Summary.model_validate(document)
        moves = pq.read_table(directory / MOVES, schema=PLAN_MOVES.arrow())
        brokers = pq.read_table(directory / BROKERS, schema=PLAN_BROKERS.arrow())
    except FileNotFoundError as error:
        raise InputIncomplete(
            f"{error.filename or directory}: no such file; make the plan with `quorumd pipeline plan make`"
        ) from None
    except ValidationError as invalid:
        problem = invalid.errors(include_url=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise InputIncomplete(f"{directory / SUMMARY}: {place}: {problem['msg']}") from None
    except (ValueError, AttributeError, TypeError, pa.ArrowException) as error:
        raise InputIncomplete(f"{directory} has no readable plan: {error}") from None
    return Plan(moves, brokers, document, document.pop("made_from"))


def wave_file(directory: Path, wave: int) -> Path:
    """Return the path of a wave's reassignment JSON; waves are numbered from 1."""
    return directory / WAVES / f"{wave:04d}.json"


def rollback_file(directory: Path, wave: int) -> Path:
    """Return the path of the reassignment JSON that undoes a wave."""
    return directory / ROLLBACK / f"{wave:04d}.json"


def _with_quoted_topics(moves: pa.Table) -> pa.Table:
    """Return moves with their topics as JSON strings, each of which is encoded once."""
    topics = moves["topic"].combine_chunks().dictionary_encode()
    quoted = pa.array([json.dumps(topic) for topic in topics.dictionary.to_pylist()], pa.string())
    return moves.set_column(moves.column_names.index("topic"), "topic", quoted.take(topics.indices))


def _reassignment_json(moves: pa.Table, column: str) -> str:
    """Format the replicas of a column of moves with quoted topics as Kafka's reassignment JSON, a line per
    partition."""
    replicas = moves[column].combine_chunks()
    directories = pc.binary_repeat('"any",', pc.list_value_length(replicas))
    lines = pc.binary_join_element_wise(
        '{"topic":',
        moves["topic"].combine_chunks(),
        ',"partition":',
        moves["partition"].combine_chunks().cast(pa.string()),
        ',"replicas":[',
        pc.binary_join(replicas.cast(pa.list_(pa.string())), ","),
        '],"log_dirs":[',
        pc.utf8_slice_codeunits(directories, 0, -1),
        "]}",
        "",
    )
    (text,) = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), ",\n").to_pylist()
    return f'{{"version":1,"partitions":[\n{text}]}}\n'
