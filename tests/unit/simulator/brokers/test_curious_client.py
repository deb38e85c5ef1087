"""The client that requests descriptions of the quorum from brokers accepts only errors that it must expect."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.errors import ErrorCode
from quorumd.protocol.messages.metadata_request import MetadataRequest
from quorumd.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from quorumd.simulator.brokers.nodes.clients import BrokerClient
from quorumd.simulator.brokers.nodes.curious_client import CuriousClient
from quorumd.simulator.checkers import InvariantViolation
from tests.support.simulator.simulated_cluster import make_cluster


@pytest.mark.parametrize(
    ("error", "is_accepted"),
    [
        (ErrorCode.NONE, True),
        (ErrorCode.INVALID_CONFIG, True),
        (ErrorCode.REQUEST_TIMED_OUT, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
    ],
)
def test_unexpected_errors_are_violations(error: ErrorCode, is_accepted: bool) -> None:
    client = CuriousClient(BrokerClient("curious", "10.0.7.1", make_cluster(1), Random(1)))
    response = MetadataResponse(topics=[MetadataResponseTopic(int(error), "topic")])
    allowed = frozenset({int(ErrorCode.INVALID_CONFIG)})
    if is_accepted:
        client._done(MetadataRequest(), allowed, response)
        client._done(MetadataRequest(), allowed, None)
        return
    with pytest.raises(InvariantViolation):
        client._done(MetadataRequest(), allowed, response)
