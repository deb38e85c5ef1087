"""Values of a config in several layers, and the resources that can have configs."""

from __future__ import annotations

import pytest

from quorumd.controller.cluster_image import ClusterImage, ConfigResourceType
from quorumd.controller.config_table import BROKER_CONFIGS, ConfigType
from quorumd.controller.configs import check_resource
from quorumd.controller.effective_configs import ConfigSource, ConfigValue, merge_layers
from quorumd.errors import ErrorCode


def test_first_layer_takes_precedence() -> None:
    own = (ConfigSource.DYNAMIC_BROKER, {"log.retention.ms": "1", "made.up": "x"})
    all_brokers = (
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
        {"log.retention.ms": "2", "ssl.keystore.password": "secret"},
    )
    found = {config.name: config for config in merge_layers(BROKER_CONFIGS, own, all_brokers)}
    assert list(found) == ["log.retention.ms", "made.up", "ssl.keystore.password"]
    assert found["log.retention.ms"].type is ConfigType.LONG
    assert found["log.retention.ms"].values == [
        ConfigValue(ConfigSource.DYNAMIC_BROKER, "log.retention.ms", "1"),
        ConfigValue(ConfigSource.DYNAMIC_DEFAULT_BROKER, "log.retention.ms", "2"),
    ]
    assert found["made.up"].type is ConfigType.STRING
    assert [config.name for config in found.values() if config.is_sensitive] == ["ssl.keystore.password"]


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (ConfigResourceType.TOPIC, "none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ConfigResourceType.TOPIC, "a b", ErrorCode.INVALID_TOPIC),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resource_that_does_not_exist(kind: int, name: str, error: ErrorCode) -> None:
    found = check_resource(ClusterImage(), (int(kind), name))
    assert found is not None
    assert found.error is error
