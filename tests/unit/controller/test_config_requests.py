"""IncrementalAlterConfigs and AlterConfigs: each resource by itself, planned against the image."""

from __future__ import annotations

import pytest

from quorumd.controller.config_requests import MAX_CONFIGS, plan_alter_configs, plan_incremental_alter_configs
from quorumd.controller.controller_result import ControllerResult
from quorumd.errors import ErrorCode
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages import alter_configs_request as older
from quorumd.protocol.messages import incremental_alter_configs_request as newer
from quorumd.protocol.response_errors import errors_in
from tests.support.controller.topic_harness import TopicHarness, a_broker, wanted

SET, DELETE = 0, 1
RETENTION, SEGMENT = "retention.ms", "segment.bytes"
GOOD, UNKNOWN = (RETENTION, "1000"), ("no.such.config", "1")


@pytest.fixture
def cluster() -> TopicHarness:
    harness = TopicHarness((a_broker(1),))
    harness.create(wanted("orders", 1, 1, retention_ms="5"), wanted("users", 1, 1))
    return harness


def incremental(
    cluster: TopicHarness,
    *changes: tuple[str, tuple[str, str | None]],
    operation: int = SET,
    validate_only: bool = False,
) -> ControllerResult:
    resources = [
        newer.AlterConfigsResource(
            int(ConfigResourceType.TOPIC), topic, [newer.AlterableConfig(name, operation, value)]
        )
        for topic, (name, value) in changes
    ]
    request = newer.IncrementalAlterConfigsRequest(resources, validate_only)
    return plan_incremental_alter_configs(cluster.controller, request, 1)


def replacement(cluster: TopicHarness, topic: str, **configs: str) -> ControllerResult:
    values = [older.AlterableConfig(name.replace("_", "."), value) for name, value in configs.items()]
    resource = older.AlterConfigsResource(int(ConfigResourceType.TOPIC), topic, values)
    return plan_alter_configs(cluster.controller, older.AlterConfigsRequest([resource]), 2)


def changes_in(result: ControllerResult) -> list[tuple[str, str, str | None]]:
    return [(record.resource_name, record.name, record.value) for record in result.records]  # type: ignore[attr-defined]  # of ConfigRecord


def codes_in(result: ControllerResult) -> list[int]:
    return [response.error_code for response in result.response.responses]  # type: ignore[attr-defined]  # of both APIs


def test_rejected_resource_does_not_affect_the_others(cluster: TopicHarness) -> None:
    result = incremental(cluster, ("users", UNKNOWN), ("orders", GOOD))
    assert codes_in(result) == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE]
    assert changes_in(result) == [("orders", *GOOD)]


def test_unknown_topic_is_rejected(cluster: TopicHarness) -> None:
    result = incremental(cluster, ("nowhere", GOOD))
    assert codes_in(result) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert changes_in(result) == []


def test_resource_that_is_named_twice_gets_one_error_and_no_change(cluster: TopicHarness) -> None:
    result = incremental(cluster, ("orders", GOOD), ("users", GOOD), ("orders", (SEGMENT, "2000000")))
    assert codes_in(result) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert changes_in(result) == [("users", *GOOD)]


@pytest.mark.parametrize(
    ("number", "error"), [(MAX_CONFIGS, ErrorCode.NONE), (MAX_CONFIGS + 1, ErrorCode.INVALID_REQUEST)]
)
def test_resource_has_a_limited_number_of_configs(
    cluster: TopicHarness, number: int, error: ErrorCode
) -> None:
    configs = [newer.AlterableConfig(f"key-{each}", SET, "1") for each in range(number)]
    resource = newer.AlterConfigsResource(int(ConfigResourceType.BROKER), "1", configs)
    request = newer.IncrementalAlterConfigsRequest([resource])
    result = plan_incremental_alter_configs(cluster.controller, request, 1)
    assert codes_in(result) == [error]
    assert len(changes_in(result)) == (0 if error else number)


def test_validate_only_changes_nothing(cluster: TopicHarness) -> None:
    result = incremental(cluster, ("orders", GOOD), validate_only=True)
    assert codes_in(result) == [ErrorCode.NONE]
    assert changes_in(result) == []


def test_deleted_config_has_a_record_without_value(cluster: TopicHarness) -> None:
    result = incremental(cluster, ("orders", (RETENTION, None)), operation=DELETE)
    assert changes_in(result) == [("orders", RETENTION, None)]


def test_older_form_deletes_what_it_does_not_name(cluster: TopicHarness) -> None:
    result = replacement(cluster, "orders", segment_bytes="2000000")
    assert codes_in(result) == [ErrorCode.NONE]
    assert sorted(changes_in(result)) == [("orders", RETENTION, None), ("orders", SEGMENT, "2000000")]


def test_errors_of_a_response_have_their_messages(cluster: TopicHarness) -> None:
    ((code, message),) = errors_in(replacement(cluster, "orders", no_such_config="1").response)
    assert code == ErrorCode.INVALID_CONFIG
    assert message is not None
    assert "no.such.config" in message
