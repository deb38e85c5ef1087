"""Thousands of config changes get the error codes of a stock controller, which
tests/interop/stock_tools/configs.py recorded."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.config_table import ConfigType
from quorumd.controller.configs import plan_incremental, plan_operations, plan_replacement
from quorumd.errors import ErrorCode, RequestError
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.controller.config_cases import (
    APPEND,
    CLIENT_METRICS,
    CREATE,
    DATA,
    GROUP,
    REPLACE,
    SUBTRACT,
    TABLES,
    TOPIC,
    Case,
    recorded,
)

RELEASE = "4.4.0"
NAME = "7"
TOPIC_ID = KafkaUuid(b"the topic's id..")


@cache
def of_stock() -> list[tuple[Case, int]]:
    """Each case with the stock controller's error code."""
    return list(recorded(DATA / f"kafka_{RELEASE}_config_verdicts.jsonl"))


def verdict(case: Case) -> int:
    """The error code of this controller."""
    image, resource = ClusterImage(), (case.kind, NAME)
    if case.kind == TOPIC:
        image.apply(TopicRecord(NAME, TOPIC_ID), [])
    for name, value in case.base.items():
        image.set_config(resource, name, value, [])
    if case.form == CREATE:
        if any(value is None for _, _, value in case.operations):
            return int(ErrorCode.INVALID_CONFIG)
        planned = plan_operations({}, resource, case.operations, case.remote)
    elif case.form == REPLACE:
        values = [(name, value) for name, _, value in case.operations]
        planned = plan_replacement(image, resource, values, case.remote)
    else:
        planned = plan_incremental(image, resource, case.operations, case.remote)
    return int(planned.error) if isinstance(planned, RequestError) else 0


def is_accepted_on_purpose(case: Case) -> bool:
    """Whether this controller accepts the change deliberately: a stock one does not treat these configs as lists."""
    return case.kind in (GROUP, CLIENT_METRICS) and any(
        operation in (APPEND, SUBTRACT) and TABLES[case.kind][name].type is ConfigType.LIST
        for name, operation, _ in case.operations
    )


def test_error_codes_equal_those_of_a_stock_controller() -> None:
    compared = [(case, code, verdict(case)) for case, code in of_stock() if not is_accepted_on_purpose(case)]
    assert len(compared) > 3000
    assert [each for each in compared if each[1] != each[2]] == []


@pytest.mark.parametrize(
    "sort",
    [
        lambda case, code: code == 0,
        lambda case, code: code == ErrorCode.INVALID_CONFIG,
        lambda case, code: code == ErrorCode.INVALID_REQUEST,
        lambda case, code: case.remote and code == 0,
        lambda case, code: any(operation in (APPEND, SUBTRACT) for _, operation, _ in case.operations),
    ],
)
def test_recorded_cases_cover_every_kind(sort: Callable[[Case, int], bool]) -> None:
    assert sum(sort(case, code) for case, code in of_stock()) >= 10
