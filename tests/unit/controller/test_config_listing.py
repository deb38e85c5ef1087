"""ListConfigResources."""

from __future__ import annotations

import pytest

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.config_listing import list_config_resources
from quorumd.errors import ErrorCode
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from quorumd.protocol.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from tests.support.controller.requests import TOPIC_ID

TOPIC, BROKER, LOGGER, METRICS, GROUP = (int(kind) for kind in ConfigResourceType)


@pytest.fixture
def image() -> ClusterImage:
    """A topic and a fenced broker without configs, and a resource of every type with one."""
    image = ClusterImage()
    image.apply(TopicRecord("orders", TOPIC_ID), [])
    image.apply(RegisterBrokerRecord(12, fenced=True), [])
    for kind, name in ((METRICS, "m"), (GROUP, "g"), (GROUP, "a"), (BROKER, ""), (BROKER, "77")):
        image.apply(ConfigRecord(kind, name, "x", "1"), [])
    return image


def listed(
    image: ClusterImage, *kinds: int, version: int = 1, listener: str = "CLIENTS"
) -> list[tuple[int, str]]:
    response = list_config_resources(image, ListConfigResourcesRequest(list(kinds)), version, listener)
    assert response.error_code == 0
    return [(each.resource_type, each.resource_name) for each in response.config_resources]


def test_all_resources_are_listed_if_no_type_is_requested(image: ClusterImage) -> None:
    """In Kafka's order of types. Configs of a broker that is not registered are those of no resource."""
    assert listed(image) == [
        (GROUP, "a"),
        (GROUP, "g"),
        (METRICS, "m"),
        (LOGGER, "12"),
        (BROKER, "12"),
        (TOPIC, "orders"),
    ]


@pytest.mark.parametrize(
    ("kinds", "names"),
    [
        ([TOPIC], ["orders"]),
        ([BROKER], ["12"]),
        ([LOGGER], ["12"]),
        ([METRICS], ["m"]),
        ([GROUP], ["a", "g"]),
        ([TOPIC, GROUP, TOPIC], ["a", "g", "orders"]),
    ],
)
def test_only_requested_types_are_listed(image: ClusterImage, kinds: list[int], names: list[str]) -> None:
    assert [name for _, name in listed(image, *kinds)] == names


def test_brokers_are_listed_in_order_of_numbers(image: ClusterImage) -> None:
    image.apply(RegisterBrokerRecord(3), [])
    assert [name for _, name in listed(image, BROKER)] == ["3", "12"]


@pytest.mark.parametrize("kind", [BROKER, LOGGER])
@pytest.mark.parametrize(
    ("listener", "names"), [("CLIENTS", ["3", "12"]), ("INTERNAL", ["3"]), ("CONTROLLER", ["3", "4", "12"])]
)
def test_brokers_are_those_of_the_listener(
    image: ClusterImage, kind: int, listener: str, names: list[str]
) -> None:
    """A listener that no broker has, such as that of the controllers, lists all."""
    clients, internal = (BrokerEndpoint(name, "host", 9092, 0) for name in ("CLIENTS", "INTERNAL"))
    for broker_id, endpoints in ((3, [internal, clients]), (4, []), (12, [clients])):
        image.apply(RegisterBrokerRecord(broker_id, end_points=endpoints), [])
    assert [name for _, name in listed(image, kind, listener=listener)] == names


def test_version_0_lists_client_metrics_only(image: ClusterImage) -> None:
    assert listed(image, version=0) == [(METRICS, "m")]


@pytest.mark.parametrize(("kinds", "version"), [([99], 1), ([TOPIC, 0], 1), ([TOPIC], 0)])
def test_type_that_the_version_cannot_list_is_an_error(
    image: ClusterImage, kinds: list[int], version: int
) -> None:
    response = list_config_resources(image, ListConfigResourcesRequest(kinds), version, "CLIENTS")
    assert (response.error_code, response.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


@pytest.mark.parametrize("kind", [METRICS, GROUP])
def test_resource_whose_configs_are_gone_is_not_listed(image: ClusterImage, kind: int) -> None:
    for name in ("a", "g", "m"):
        image.apply(ConfigRecord(kind, name, "x", None), [])
    assert listed(image, kind) == []
