"""Which requests to change cordoned.log.dirs a broker can vouch for."""

from __future__ import annotations

import pytest

from quorumd.broker.log_management.cordon_requests import has_known_cordons
from quorumd.broker.log_management.directories import LogDirectories, LogDirectory
from quorumd.controller.configs import CORDONED_LOG_DIRS, ConfigOperation
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages import alter_configs_request, incremental_alter_configs_request
from quorumd.protocol.wire import Message

DIRECTORIES = LogDirectories([LogDirectory("/a"), LogDirectory("/b")])
BROKER, TOPIC = int(ConfigResourceType.BROKER), int(ConfigResourceType.TOPIC)
SET, DELETE, APPEND, SUBTRACT = (int(operation) for operation in ConfigOperation)
Change = tuple[str, int, str | None]
"""The broker, the operation and its value."""


def incremental(*changes: Change, name: str = CORDONED_LOG_DIRS, kind: int = BROKER) -> Message:
    wire = incremental_alter_configs_request
    return wire.IncrementalAlterConfigsRequest(
        [
            wire.AlterConfigsResource(kind, broker, [wire.AlterableConfig(name, operation, value)])
            for broker, operation, value in changes
        ]
    )


@pytest.mark.parametrize(
    ("changes", "is_known"),
    [
        ([("1", SET, "/a")], True),
        ([("1", SET, " /a/ , /b")], True),
        ([("1", SET, "*")], True),
        ([("", SET, "/a")], True),
        ([("1", APPEND, "/b")], True),
        ([("1", SET, "/a,/c")], False),
        ([("1", SET, "/a,*")], False),
        ([("1", APPEND, "*")], False),
        ([("2", SET, "/a")], False),
        ([("1", SET, "/a"), ("2", SET, "/a")], False),
        ([("1", SET, "/a"), ("2", DELETE, None)], True),
        ([("1", SET, "/a"), ("2", SET, " ")], True),
        ([("1", SUBTRACT, "/a")], False),
        ([("1", SET, "")], False),
        ([("1", SET, None)], False),
        ([], False),
    ],
)
def test_additions_of_directories_of_this_broker_are_known(changes: list[Change], is_known: bool) -> None:
    assert has_known_cordons(incremental(*changes), 1, DIRECTORIES) is is_known


def test_other_configs_and_resources_do_not_count() -> None:
    assert not has_known_cordons(incremental(("1", SET, "/a"), name="log.dirs"), 1, DIRECTORIES)
    assert not has_known_cordons(incremental(("1", SET, "/a"), kind=TOPIC), 1, DIRECTORIES)


@pytest.mark.parametrize(
    ("kind", "name", "value", "is_known"),
    [
        (BROKER, CORDONED_LOG_DIRS, "/a", True),
        (BROKER, CORDONED_LOG_DIRS, "/c", False),
        (BROKER, "log.dirs", "/a", False),
        (TOPIC, CORDONED_LOG_DIRS, "/a", False),
    ],
)
def test_older_form_of_the_request(kind: int, name: str, value: str, is_known: bool) -> None:
    wire = alter_configs_request
    resource = wire.AlterConfigsResource(kind, "1", [wire.AlterableConfig(name, value)])
    assert has_known_cordons(wire.AlterConfigsRequest([resource]), 1, DIRECTORIES) is is_known
