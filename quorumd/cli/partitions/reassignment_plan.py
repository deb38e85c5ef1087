"""The plan file of `quorumd partitions reassign`: Kafka's reassignment JSON, checked before any request is sent.

{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3], "log_dirs": ["any", ...]}]}
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from quorumd.client.admin import TopicPartition
from quorumd.errors import ConfigError

BrokerId = Annotated[int, Field(ge=0, lt=2**31)]
Plan = dict[TopicPartition, tuple[int, ...]]
"""The target replicas of each partition, the preferred leader first."""

_SHOWN_PROBLEMS = 10
_ALLOWED = {
    "missing": "required",
    "literal_error": "expected 1",
    "int_type": "expected an integer",
    "greater_than_equal": "expected 0 or more",
    "less_than": "expected less than 2147483648",
    "string_type": "expected a string",
    "string_too_short": "expected a non-empty string",
    "list_type": "expected a list",
    "too_short": "expected at least one element",
    "model_type": "expected an object in { }",
    "model_attributes_type": "expected an object in { }",
}
"""Replaces pydantic's messages."""


class _Partition(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    topic: Annotated[str, Field(min_length=1)]
    partition: Annotated[int, Field(ge=0, lt=2**31)]
    replicas: Annotated[list[BrokerId], Field(min_length=1)]
    log_dirs: list[str] | None = None

    @model_validator(mode="after")
    def _check(self) -> _Partition:
        duplicates = {replica for replica in self.replicas if self.replicas.count(replica) > 1}
        if duplicates:
            raise ValueError(f"replicas list broker {min(duplicates)} twice")
        if self.log_dirs is not None:
            if len(self.log_dirs) != len(self.replicas):
                raise ValueError(
                    f"{len(self.log_dirs)} log_dirs for {len(self.replicas)} replicas; give one per replica, or none"
                )
            named = [directory for directory in self.log_dirs if directory != "any"]
            if named:
                raise ValueError(
                    f'log_dirs: {named[0]!r} is not supported; use "any": the broker chooses the directory'
                )
        return self


class _PlanFile(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1]
    partitions: Annotated[list[_Partition], Field(min_length=1)]


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises ConfigError with file, place and allowed values, and OSError."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: invalid UTF-8 at byte {error.start}; expected a JSON plan") from None
    try:
        file = _PlanFile.model_validate_json(text)
    except ValidationError as invalid:
        problems = invalid.errors(include_url=False)
        lines = [f"{path}: {_problem(problem)}" for problem in problems[:_SHOWN_PROBLEMS]]
        if len(problems) > _SHOWN_PROBLEMS:
            lines.append(f"{path}: and {len(problems) - _SHOWN_PROBLEMS} more like these")
        raise ConfigError("\n".join(lines)) from None
    plan: Plan = {}
    for number, wanted in enumerate(file.partitions):
        where = TopicPartition(wanted.topic, wanted.partition)
        if where in plan:
            raise ConfigError(
                f"{path}: partitions[{number}]: {where.topic}-{where.partition} is listed twice"
            )
        plan[where] = tuple(wanted.replicas)
    return plan


def plan_text(plan: Plan) -> str:
    """The plan as the content of a file, one line per partition."""
    lines = [
        json.dumps({"topic": where.topic, "partition": where.partition, "replicas": list(replicas)})
        for where, replicas in plan.items()
    ]
    return '{"version": 1, "partitions": [\n  ' + ",\n  ".join(lines) + "]}\n"


def _problem(problem: ErrorDetails) -> str:
    """One problem as `partitions[3].replicas[0]: 'x': expected an integer`."""
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).lstrip(
        "."
    )
    kind = problem["type"]
    if kind == "json_invalid":
        return str(problem["ctx"]["error"])
    if kind == "value_error":
        return f"{place}: {problem['ctx']['error']}"
    if kind == "extra_forbidden":
        keys = (_PlanFile if len(problem["loc"]) == 1 else _Partition).model_fields
        return f"{place}: unknown key; expected {', '.join(keys)}"
    allowed = _ALLOWED.get(kind, problem["msg"])
    if kind in ("missing", "too_short", "string_too_short") or isinstance(problem["input"], (dict, list)):
        return f"{place or 'the file'}: {allowed}"
    return f"{place or 'the file'}: {problem['input']!r}: {allowed}"
