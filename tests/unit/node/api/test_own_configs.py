"""The configs that a node adds to descriptions of itself: its properties file, and defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quorumd.errors import ErrorCode
from quorumd.node.api.own_configs import OwnConfigs
from quorumd.protocol.messages.describe_configs_response import DescribeConfigsResponse, DescribeConfigsResult
from tests.unit.node.api.test_configs import BROKER, SET, ConfigApiHarness


@pytest.fixture
def harness() -> ConfigApiHarness:
    return ConfigApiHarness()


def response_of_leader(*resources: tuple[int, str], **fields: Any) -> DescribeConfigsResponse:
    """The response of the leader, node 3, on which broker 1 has one config."""
    leader = ConfigApiHarness()
    leader.config_apis._own_configs = OwnConfigs(replace(leader.settings, node_id=3))
    leader.alter((BROKER, "1", [("log.dirs", SET, "dynamic")]))
    leader.commit()
    session = leader.describe(*resources, **fields)
    leader.confirm()
    (response,) = session.responses
    assert isinstance(response, DescribeConfigsResponse)
    return response


def hook_of_follower(harness: ConfigApiHarness, **fields: Any) -> Callable[[DescribeConfigsResponse], None]:
    """How node 1, a follower, extends the response of the leader to a request for the configs of node 1."""
    harness.is_leader = False
    harness.describe((BROKER, "1"), **fields)
    ((_, hook),) = harness.forwarder.forwarded
    assert hook is not None
    return hook


def test_follower_adds_its_static_configs_to_the_response_of_the_leader(harness: ConfigApiHarness) -> None:
    response = response_of_leader((BROKER, "1"), (BROKER, "2"))
    hook_of_follower(harness)(response)
    assert [(e.name, e.value) for e in response.results[0].configs] == [
        ("log.dirs", "dynamic"),
        ("broker.id", "1"),
    ]
    assert response.results[1].configs == []


def test_synonyms_include_the_static_configs_of_a_follower(harness: ConfigApiHarness) -> None:
    response = response_of_leader((BROKER, "1"), include_synonyms=True)
    hook_of_follower(harness, include_synonyms=True)(response)
    assert [[(s.value, s.source) for s in entry.synonyms] for entry in response.results[0].configs] == [
        [("dynamic", 2), ("/data", 4)],
        [("1", 4)],
    ]


@pytest.mark.parametrize("is_leader", [False, True])
def test_static_configs_that_the_request_does_not_name_are_left_out(
    harness: ConfigApiHarness, is_leader: bool
) -> None:
    if is_leader:
        assert harness.read(BROKER, "1", keys=["broker.id"]) == [("broker.id", "1", 4)]
        return
    response = response_of_leader((BROKER, "1"), keys=["broker.id"])
    hook_of_follower(harness, keys=["broker.id"])(response)
    assert [(e.name, e.value) for e in response.results[0].configs] == [("broker.id", "1")]


def test_defaults_of_the_settings_of_a_node_are_described(harness: ConfigApiHarness) -> None:
    defaults = (("log.dirs", "/other"), ("num.partitions", "1"), ("advertised.listeners", None))
    harness.config_apis._own_configs = OwnConfigs(replace(harness.settings, default_configs=defaults))
    session = harness.describe((BROKER, "1"), include_synonyms=True)
    harness.confirm()
    described = {entry.name: entry for entry in session.responses[0].results[0].configs}
    partitions, listeners = described["num.partitions"], described["advertised.listeners"]
    assert [(each.value, each.config_source, each.read_only) for each in (partitions, listeners)] == [
        ("1", 5, False),
        (None, 5, False),
    ]
    assert [len(each.synonyms) for each in (partitions, listeners, described["log.dirs"])] == [1, 0, 2]
    assert described["log.dirs"].value == "/data"


def test_static_configs_are_not_added_to_an_error(harness: ConfigApiHarness) -> None:
    """The leader refuses clients without rights, and the follower does not know that it would."""
    refused = DescribeConfigsResult(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None, BROKER, "1")
    hook_of_follower(harness)(DescribeConfigsResponse(0, [refused]))
    assert refused.configs == []
