from __future__ import annotations

from math import inf

import pytest

from quorumd.controller.cluster_image import ALL_BROKERS, ClusterImage
from quorumd.controller.config_table import (
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    ConfigDefinition,
    ConfigType,
    parse_definitions,
)
from quorumd.controller.config_values import parse_value
from quorumd.controller.effective_configs import ConfigSource, ConfigValue, effective_topic_configs
from quorumd.controller.topic_configs import validate_topic_configs
from quorumd.errors import RequestError


def test_definitions_are_those_of_one_kind_of_resource() -> None:
    definitions = """\
TOPIC a.limit INT =5 1: log.a.limit internal
TOPIC b.names STRING = - - -
GROUP a.limit LONG - - - -
"""
    assert parse_definitions("TOPIC", definitions) == {
        "a.limit": ConfigDefinition(ConfigType.INT, "5", "1:", "log.a.limit", True),
        "b.names": ConfigDefinition(ConfigType.STRING, "", "", None, False),
    }
    assert parse_definitions("GROUP", definitions) == {
        "a.limit": ConfigDefinition(ConfigType.LONG, None, "", None, False)
    }


@pytest.mark.parametrize("name", TOPIC_CONFIGS)
def test_every_default_is_a_valid_value(name: str) -> None:
    default = TOPIC_CONFIGS[name].default
    validate_topic_configs({name: "1" if default is None else default}, {}, False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min.insync.replicas", " 2 "),
        ("min.insync.replicas", "+2"),
        ("unclean.leader.election.enable", "TRUE"),
        ("retention.bytes", "-5"),
        ("cleanup.policy", "delete,delete"),
        ("cleanup.policy", "compact, delete"),
        ("cleanup.policy", ""),
        ("min.cleanable.dirty.ratio", "1e-2"),
        ("compression.type", "zstd"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1, 1:2"),
    ],
)
def test_accepted_values(name: str, value: str) -> None:
    validate_topic_configs({name: value}, {}, False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min.insync.replicas", "0"),
        ("min.insync.replicas", "2.0"),
        ("min.insync.replicas", "1_0"),
        ("min.insync.replicas", "²"),
        ("min.insync.replicas", "9" * 5000),
        ("min.insync.replicas", ""),
        ("min.insync.replicas", str(2**31)),
        ("unclean.leader.election.enable", "yes"),
        ("retention.ms", "-2"),
        ("segment.bytes", "1000"),
        ("flush.ms", str(2**63)),
        ("cleanup.policy", "burn"),
        ("cleanup.policy", "delete,"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("compression.type", "rar"),
        ("leader.replication.throttled.replicas", "0"),
        ("leader.replication.throttled.replicas", "*,0:1"),
        ("broker.id", "1"),
        ("", ""),
    ],
)
def test_rejected_values(name: str, value: str) -> None:
    with pytest.raises(RequestError):
        validate_topic_configs({name: value}, {}, False)


def test_topic_value_precedes_cluster_default_and_built_in() -> None:
    image = ClusterImage()
    image.set_config(ALL_BROKERS, "log.retention.ms", "5", [])
    effective = {config.name: config for config in effective_topic_configs(image, {"retention.ms": "7"})}
    assert effective["retention.ms"].type is ConfigType.LONG
    assert effective["retention.ms"].values == [
        ConfigValue(ConfigSource.TOPIC, "retention.ms", "7"),
        ConfigValue(ConfigSource.DYNAMIC_DEFAULT_BROKER, "log.retention.ms", "5"),
        ConfigValue(ConfigSource.DEFAULT, "log.retention.ms", "604800000"),
    ]
    assert [value.source for value in effective["segment.bytes"].values] == [ConfigSource.DEFAULT]
    assert list(effective) == sorted(TOPIC_CONFIGS.keys() - {"internal.segment.bytes"})


def test_unknown_config_is_described_unchanged() -> None:
    """An older or newer release may have written it."""
    (config,) = [
        c
        for c in effective_topic_configs(ClusterImage(), {"message.format.version": "1"})
        if c.name == "message.format.version"
    ]
    assert (config.type, config.values[0].value) == (ConfigType.UNKNOWN, "1")


def definition(kind: ConfigType, rule: str) -> ConfigDefinition:
    return ConfigDefinition(kind, None, rule, None, False)


def test_values_that_no_topic_config_has() -> None:
    number = definition(ConfigType.DOUBLE, "")
    assert parse_value("x", number, "-0x1p99999") == -inf
    assert parse_value("x", number, "0x1.8p1f") == 3.0
    for rule in ("non-empty", "some-items="):
        names = definition(ConfigType.LIST, rule)
        assert parse_value("x", names, "a,b") == ["a", "b"]
        with pytest.raises(RequestError, match="empty"):
            parse_value("x", names, "")


def test_broker_config_may_ignore_case() -> None:
    algorithm = BROKER_CONFIGS["sasl.oauthbearer.assertion.algorithm"]
    assert parse_value("x", algorithm, "es256") == "es256"
    with pytest.raises(RequestError, match="ES256, RS256"):
        parse_value("x", algorithm, "hs256")
