"""The configs of this node that the leader does not know: its properties file, and the defaults of its settings."""

from __future__ import annotations

from typing import Final

from quorumd.controller.config_table import BROKER_CONFIGS
from quorumd.controller.effective_configs import ConfigSource, EffectiveConfig, merge_layers
from quorumd.node.settings import NodeSettings
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.messages import describe_configs_response
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from quorumd.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)


class OwnConfigs:
    """Extends descriptions of this node's configs with those of the process itself."""

    def __init__(self, settings: NodeSettings) -> None:
        self._resource: Final = (int(ConfigResourceType.BROKER), str(settings.node_id))
        self._configs = merge_layers(
            BROKER_CONFIGS,
            (ConfigSource.STATIC_BROKER, dict(settings.static_configs)),
            (ConfigSource.DEFAULT, dict(settings.default_configs)),
        )

    def are_named(self, message: DescribeConfigsRequest) -> bool:
        """Whether the request names this node."""
        return self._requested(message) is not None

    def add_to(self, message: DescribeConfigsRequest, response: DescribeConfigsResponse) -> None:
        """Add the configs that the request wants to the response of the leader, unless that refuses to describe this
        node. Configs of the leader take precedence, and get the others as synonyms."""
        requested = self._requested(message)
        if requested is None:
            return
        keys = requested.configuration_keys
        names = None if keys is None else frozenset(keys)
        for result in response.results:
            if (result.resource_type, result.resource_name) == self._resource and not result.error_code:
                self._extend(result, names, message.include_synonyms)

    def _requested(self, message: DescribeConfigsRequest) -> DescribeConfigsResource | None:
        """The part of the request that names this node."""
        for each in message.resources:
            if (each.resource_type, each.resource_name) == self._resource:
                return each
        return None

    def _extend(
        self, result: DescribeConfigsResult, names: frozenset[str] | None, with_synonyms: bool
    ) -> None:
        found = {entry.name: entry for entry in result.configs}
        for config in self._configs:
            if names is not None and config.name not in names:
                continue
            own = entry_of(config, with_synonyms)
            if config.name in found:
                found[config.name].synonyms += own.synonyms
            else:
                result.configs.append(own)


def entry_of(config: EffectiveConfig, with_synonyms: bool) -> DescribeConfigsResourceResult:
    """The description of a config. Values of secrets are left out."""
    wire = describe_configs_response
    is_sensitive = config.is_sensitive
    first = config.values[0]
    synonyms = [
        wire.DescribeConfigsSynonym(each.name, None if is_sensitive else each.value, int(each.source))
        for each in (config.values if with_synonyms else ())
        if each.value is not None
    ]
    return wire.DescribeConfigsResourceResult(
        config.name,
        None if is_sensitive else first.value,
        first.source is ConfigSource.STATIC_BROKER,
        int(first.source),
        is_sensitive,
        synonyms,
        int(config.type),
        None,
    )
