from __future__ import annotations

import pytest

from quorumd.controller.cluster_image import (
    ALL_BROKERS,
    ELR_VERSION,
    METADATA_VERSION,
    ClusterImage,
    Resource,
)
from quorumd.controller.configs import plan_incremental, plan_replacement
from quorumd.errors import ErrorCode, RequestError
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord

BROKER: Resource = (int(ConfigResourceType.BROKER), "7")
GROUP: Resource = (int(ConfigResourceType.GROUP), "g")
METRICS: Resource = (int(ConfigResourceType.CLIENT_METRICS), "m")
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def image() -> ClusterImage:
    image = ClusterImage()
    image.set_config(METRICS, "metrics", "a,b", [])
    image.set_config(BROKER, "kept", "1", [])
    image.set_config(BROKER, "gone", "1", [])
    return image


@pytest.mark.parametrize(
    ("operation", "value", "expected"),
    [
        (SET, "x", ["x"]),
        (DELETE, None, [None]),
        (APPEND, "c", ["a,b,c"]),
        (APPEND, "b,c,c", ["a,b,c"]),
        (APPEND, "b", []),
        (SUBTRACT, "a", ["b"]),
        (SUBTRACT, "z", []),
        (SUBTRACT, "a,b", [""]),
    ],
)
def test_operations(
    image: ClusterImage, operation: int, value: str | None, expected: list[str | None]
) -> None:
    planned = plan_incremental(image, METRICS, [("metrics", operation, value)])
    assert planned == [ConfigRecord(*METRICS, "metrics", v) for v in expected]


@pytest.mark.parametrize(
    ("resource", "operations", "error"),
    [
        ((2, "topic"), [("retention.ms", SET, "1")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((4, "one"), [("a", SET, "1")], ErrorCode.INVALID_REQUEST),
        ((32, ""), [("a", SET, "1")], ErrorCode.INVALID_REQUEST),
        ((99, "x"), [("a", SET, "1")], ErrorCode.UNSUPPORTED_VERSION),
        ((2, "no such name"), [], ErrorCode.INVALID_TOPIC),
        ((2, ""), [], ErrorCode.INVALID_REQUEST),
        (GROUP, [("a", SET, "1")], ErrorCode.INVALID_CONFIG),
        (METRICS, [("a", SET, "1")], ErrorCode.INVALID_REQUEST),
        (GROUP, [("", SET, "1")], ErrorCode.INVALID_CONFIG),
        (METRICS, [("", SET, "1")], ErrorCode.INVALID_REQUEST),
        (METRICS, [("metrics", APPEND, None)], ErrorCode.INVALID_CONFIG),
        (BROKER, [("kept", APPEND, "2")], ErrorCode.INVALID_CONFIG),
        (BROKER, [("a", 9, "1")], ErrorCode.INVALID_REQUEST),
        (BROKER, [("a", SET, "x" * 32_768)], ErrorCode.INVALID_CONFIG),
        (BROKER, [("a", SET, "€" * 11_000)], ErrorCode.INVALID_CONFIG),
        (BROKER, [("€" * 11_000, SET, "1")], ErrorCode.INVALID_CONFIG),
        (METRICS, [("metrics", APPEND, "x" * 32_765)], ErrorCode.INVALID_CONFIG),
        ((32, "g" * 32_768), [("a", SET, "1")], ErrorCode.INVALID_REQUEST),
        ((4, "2147483648"), [("a", SET, "1")], ErrorCode.INVALID_REQUEST),
        ((4, "01"), [("a", SET, "1")], ErrorCode.INVALID_REQUEST),
        ((4, "9" * 5000), [("a", SET, "1")], ErrorCode.INVALID_REQUEST),
        (BROKER, [("fine", SET, "1"), ("kept", APPEND, "1")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_rejected_config_change_explains_the_cause(
    image: ClusterImage, resource: Resource, operations: list[tuple[str, int, str | None]], error: ErrorCode
) -> None:
    planned = plan_incremental(image, resource, operations)
    assert isinstance(planned, RequestError)
    assert planned.error == error
    assert planned.message


@pytest.mark.parametrize(
    ("resource", "name"),
    [((2, "€" * 10_000), "a"), ((4, "\x00" * 32_767), "a"), (BROKER, "€" * 10_000)],
)
def test_error_text_shortens_long_names(image: ClusterImage, resource: Resource, name: str) -> None:
    """The error text is a string of at most 32767 bytes, whatever the characters of the name."""
    planned = plan_incremental(image, resource, [(name, APPEND, "1")])
    assert isinstance(planned, RequestError)
    assert len(planned.message.encode()) < 1000


def test_largest_node_id_has_configs(image: ClusterImage) -> None:
    largest: Resource = (int(ConfigResourceType.BROKER), "2147483647")
    assert plan_incremental(image, largest, [("a", SET, "1")]) == [ConfigRecord(*largest, "a", "1")]


@pytest.mark.parametrize(("operation", "value"), [(SET, "€" * 10_000), (APPEND, "x" * 32_763)])
def test_values_up_to_the_size_limit_are_accepted(image: ClusterImage, operation: int, value: str) -> None:
    planned = plan_incremental(image, METRICS, [("metrics", operation, value)])
    assert isinstance(planned, list)
    (change,) = planned
    assert change.value is not None
    assert len(change.value.encode()) <= 32_767


@pytest.mark.parametrize(
    ("resource", "name", "value"),
    [
        ((4, ""), "a", "1"),
        ((4, "0"), "", "1"),
        ((4, "17"), "a", "1"),
        (METRICS, "interval.ms", "100"),
        (GROUP, "consumer.session.timeout.ms", "45000"),
    ],
)
def test_alterable_resource_types(image: ClusterImage, resource: Resource, name: str, value: str) -> None:
    assert isinstance(plan_incremental(image, resource, [(name, SET, value)]), list)


def test_last_operation_on_a_config_wins(image: ClusterImage) -> None:
    planned = plan_incremental(image, BROKER, [("a", SET, "1"), ("a", DELETE, None)])
    assert planned == [ConfigRecord(*BROKER, "a", None)]


def test_null_value_deletes_the_config(image: ClusterImage) -> None:
    assert plan_incremental(image, BROKER, [("kept", SET, None)]) == [ConfigRecord(*BROKER, "kept", None)]


def test_replacement_deletes_unnamed_configs(image: ClusterImage) -> None:
    assert plan_replacement(image, BROKER, [("kept", "2")]) == [
        ConfigRecord(*BROKER, "gone", None),
        ConfigRecord(*BROKER, "kept", "2"),
    ]


@pytest.mark.parametrize(
    ("elr", "name", "operation", "value", "is_refused"),
    [
        (1, "7", SET, "2", True),
        (1, "7", DELETE, None, False),
        (1, "", SET, "2", False),
        (0, "7", SET, "2", False),
    ],
)
def test_with_elr_a_broker_cannot_override_min_isr(
    image: ClusterImage, elr: int, name: str, operation: int, value: str | None, is_refused: bool
) -> None:
    """Its high watermark would advance without replicas that are eligible."""
    image.apply(FeatureLevelRecord(ELR_VERSION, elr), [])
    planned = plan_incremental(
        image, (int(ConfigResourceType.BROKER), name), [("min.insync.replicas", operation, value)]
    )
    assert isinstance(planned, RequestError) is is_refused
    if isinstance(planned, RequestError):
        assert planned.error == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("elr", [0, 1])
def test_with_elr_the_cluster_min_isr_cannot_be_deleted(image: ClusterImage, elr: int) -> None:
    """Without it each broker would use its own properties file."""
    image.apply(FeatureLevelRecord(ELR_VERSION, elr), [])
    image.set_config(ALL_BROKERS, "min.insync.replicas", "2", [])
    for planned in (
        plan_incremental(image, ALL_BROKERS, [("min.insync.replicas", DELETE, None)]),
        plan_incremental(image, ALL_BROKERS, [("min.insync.replicas", SET, None)]),
        plan_replacement(image, ALL_BROKERS, [("min.insync.replicas", None)]),
        plan_replacement(image, ALL_BROKERS, [("log.cleaner.threads", "3")]),
    ):
        assert isinstance(planned, RequestError) is bool(elr)
        if isinstance(planned, RequestError):
            assert planned.error == ErrorCode.INVALID_CONFIG
            assert "set it to 1" in planned.message
    replaced = plan_replacement(image, ALL_BROKERS, [("min.insync.replicas", "1")])
    assert replaced == [ConfigRecord(*ALL_BROKERS, "min.insync.replicas", "1")]


@pytest.mark.parametrize("value", [" 3 ", "+3", "3"])
def test_accepted_values_can_be_parsed(image: ClusterImage, value: str) -> None:
    for name, shown in (("min.insync.replicas", value), ("unclean.leader.election.enable", " True")):
        planned = plan_incremental(image, ALL_BROKERS, [(name, SET, shown)])
        assert isinstance(planned, list)
        image.apply(planned[0], [])
    assert image.min_isr("t") == 3
    assert image.unclean_election("t")


@pytest.mark.parametrize("value", ["", "many", "0", "-1"])
def test_invalid_value_in_the_log_falls_back_to_the_default(image: ClusterImage, value: str) -> None:
    image.set_config(ALL_BROKERS, "min.insync.replicas", value, [])
    assert image.min_isr("t") == 1


def cordons(
    configured: str | None,
    operation: int,
    value: str | None,
    *,
    level: int = 30,
    name: str = "7",
    comes_from_broker: bool = False,
) -> list[ConfigRecord] | RequestError:
    """Change cordoned.log.dirs of a broker whose value is `before`."""
    image, resource = ClusterImage(), (int(ConfigResourceType.BROKER), name)
    image.apply(FeatureLevelRecord(METADATA_VERSION, level), [])
    if configured is not None:
        image.set_config(resource, "cordoned.log.dirs", configured, [])
    operations = [("cordoned.log.dirs", operation, value)]
    return plan_incremental(image, resource, operations, comes_from_broker=comes_from_broker)


@pytest.mark.parametrize("name", ["7", ""])
@pytest.mark.parametrize(
    ("configured", "operation", "value", "is_refused"),
    [
        (None, SET, "/a", True),
        (None, SET, "*", True),
        (None, SET, "", False),
        (None, DELETE, None, False),
        ("/a,/b", SET, "/b", False),
        ("/a , /b", SET, " /b,/a ", False),
        ("/a,/b", SET, "/b,/c", True),
        ("/a,/b", SUBTRACT, "/a", False),
        ("/a,/b", APPEND, "/c", True),
        ("/a", SET, "*", True),
        ("*", SET, "*", False),
        ("*", SET, "/a", True),
        ("*", DELETE, None, False),
    ],
)
def test_controller_only_removes_cordons(
    configured: str | None, operation: int, value: str | None, is_refused: bool, name: str
) -> None:
    """Only the broker that forwards a request knows, and has checked, the paths of its log directories."""
    planned = cordons(configured, operation, value, name=name)
    assert isinstance(planned, RequestError) is is_refused
    assert not isinstance(planned, RequestError) or planned.error == ErrorCode.INVALID_CONFIG
    assert isinstance(cordons(configured, operation, value, name=name, comes_from_broker=True), list)


@pytest.mark.parametrize(("operation", "value"), [(SET, "/a"), (SET, ""), (DELETE, None)])
def test_cordons_require_their_metadata_version(operation: int, value: str | None) -> None:
    planned = cordons("/a", operation, value, level=29, comes_from_broker=True)
    assert isinstance(planned, RequestError)
    assert (planned.error, "metadata.version 30" in planned.message) == (ErrorCode.INVALID_CONFIG, True)


def test_replacement_only_removes_cordons() -> None:
    image, resource = ClusterImage(), (int(ConfigResourceType.BROKER), "7")
    image.apply(FeatureLevelRecord(METADATA_VERSION, 30), [])
    image.set_config(resource, "cordoned.log.dirs", "/a,/b", [])
    assert isinstance(plan_replacement(image, resource, []), list)
    assert isinstance(plan_replacement(image, resource, [("cordoned.log.dirs", "/a")]), list)
    assert isinstance(plan_replacement(image, resource, [("cordoned.log.dirs", "/c")]), RequestError)


@pytest.mark.parametrize("kind", [ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS])
def test_names_have_no_control_characters(kind: ConfigResourceType) -> None:
    error = plan_incremental(ClusterImage(), (int(kind), "a\x1b[31m"), [("metrics", 0, "x")])
    assert isinstance(error, RequestError)
    assert error.error is ErrorCode.INVALID_REQUEST
