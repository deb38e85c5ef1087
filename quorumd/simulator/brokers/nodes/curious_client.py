"""A client that requests descriptions of the quorum from brokers, and lets them validate changes of configs."""

from __future__ import annotations

from functools import partial
from typing import Final

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.endpoint_type import EndpointType
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.simulator.brokers.nodes.clients import BrokerClient
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.checkers.administered_register import OPEN_OUTCOMES

MEAN_INTERVAL_MS: Final = 300.0
_GROUP: Final = AlterConfigsResource(
    int(ConfigResourceType.GROUP), "curious", [AlterableConfig("consumer.session.timeout.ms", 0, "45000")]
)
_REQUESTS: Final[tuple[tuple[Message, int, frozenset[int]], ...]] = (
    (MetadataRequest([MetadataRequestTopic(name=METADATA_TOPIC)]), 12, frozenset()),
    (DescribeClusterRequest(False, int(EndpointType.CONTROLLER)), 1, frozenset()),
    (IncrementalAlterConfigsRequest([_GROUP], True), 1, frozenset()),
)
"""Requests without an effect, their versions, and the errors that their responses may have."""


class CuriousClient:
    """Sends one request at a time to any broker until `running` is False. Raises InvariantViolation for an error that
    the request cannot have."""

    def __init__(self, client: BrokerClient) -> None:
        self.running = True
        self._client = client

    def start(self) -> None:
        """Send the next request after a pause."""
        if self.running:
            self._client.later(self._client.random.random() * 2 * MEAN_INTERVAL_MS, self._send)

    def _send(self) -> None:
        broker_id = self._client.any_broker()
        request, version, allowed = self._client.random.choice((*_REQUESTS, self._cordon(broker_id)))
        self._client.call(broker_id, request, version, partial(self._done, request, allowed))

    def _cordon(self, broker_id: int) -> tuple[Message, int, frozenset[int]]:
        """Only validate a change that the broker itself checks."""
        config = AlterableConfig(
            "cordoned.log.dirs", 0, self._client.random.choice(("/logs-1", "/unknown", ""))
        )
        resource = AlterConfigsResource(int(ConfigResourceType.BROKER), str(broker_id), [config])
        allowed = ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION
        return IncrementalAlterConfigsRequest([resource], True), 1, frozenset(map(int, allowed))

    def _done(self, request: Message, allowed: frozenset[int], response: Message | None) -> None:
        codes = {code for code, _ in errors_in(response)} if response is not None else set()
        if not codes <= allowed | OPEN_OUTCOMES:
            names = [ErrorCode(code).name for code in sorted(codes)]
            raise InvariantViolation("brokers describe the quorum", f"{request!r} has {names}")
        self.start()
