"""The administrator whose requests must be refused."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.errors import ErrorCode, MalformedMessage, UnsupportedVersion
from quorumd.protocol.connection import Request, read_request
from quorumd.protocol.messages.create_topics_request import CreateTopicsRequest
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest
from quorumd.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from quorumd.protocol.messages.envelope_request import EnvelopeRequest
from quorumd.protocol.wire import Message
from quorumd.security.forwarded_principals import deserialize
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.workload.careless_administrator import CarelessAdministrator
from quorumd.simulator.workload.mistakes import Mistake, _envelope
from tests.support.simulator.simulated_cluster import elect, make_cluster, run

MISTAKE = Mistake(DeleteTopicsRequest(), 6, frozenset({ErrorCode.UNKNOWN_TOPIC_ID}))


def response(error: ErrorCode) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(0, [DeletableTopicResult("a", error_code=error)])


@pytest.mark.parametrize("options", [{}, {"access_ms": 10.0}, {"remote_storage": True}])
def test_every_mistake_is_refused(options: dict[str, object]) -> None:
    cluster = make_cluster(3, max_partitions_per_part=2, **options)
    elect(cluster)
    careless = CarelessAdministrator(cluster, Random(1), 2.0)
    careless.start()
    run(cluster, 8000.0)
    careless.running = False
    run(cluster, 3000.0)
    names = {name.partition(": ")[2] for name in careless.counters}
    assert {
        "AlterClientQuotas", "DescribeClientQuotas", "AlterUserScramCredentials", "DescribeUserScramCredentials",
        "CreateAcls", "DeleteAcls", "DescribeAcls", "CreateTopics", "CreatePartitions", "DeleteTopics",
        "AlterPartitionReassignments", "ElectLeaders", "UpdateFeatures", "IncrementalAlterConfigs", "AlterConfigs",
        "Envelope", "DescribeQuorum", "ListConfigResources",
    } <= names  # fmt: skip


def test_damaged_envelopes_are_refused_while_they_are_decoded() -> None:
    """A leader decodes a large request after it has read the principal, so that the principal must be valid."""
    drawn = [_envelope(Random(seed)).request for seed in range(100)]
    envelopes = [each for each in drawn if isinstance(each, EnvelopeRequest)]
    damaged = [each for each in envelopes if each.client_host_address == bytes(4) and valid_principal(each)]
    assert len(damaged) > 10
    in_steps = [request for each in damaged if (request := begun(each)) is not None]
    assert len(in_steps) > 5
    for request in in_steps:
        with pytest.raises(MalformedMessage):
            request.continue_decoding(100)


def valid_principal(envelope: EnvelopeRequest) -> bool:
    try:
        return deserialize(envelope.request_principal or b"").principal == "User:client"
    except MalformedMessage:
        return False


def begun(envelope: EnvelopeRequest) -> Request[Message] | None:
    """The request inside an Envelope, if it is one to the controller that is not whole."""
    try:
        request = read_request(envelope.request_data, {CreateTopicsRequest.API_KEY: (2, 7)}, 0)
    except (MalformedMessage, UnsupportedVersion):
        return None
    return None if request.is_whole else request


@pytest.mark.parametrize(
    "error", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT]
)
def test_expected_and_unknown_outcomes_are_no_violation(error: ErrorCode) -> None:
    careless = CarelessAdministrator(make_cluster(1), Random(1), 2.0)
    careless.judge(MISTAKE, response(error))
    careless.judge(MISTAKE, None)
    assert careless.counters == {"mistake: DeleteTopics": 1, "mistake: DeleteTopics without response": 1}


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.INVALID_REQUEST])
def test_other_outcome_is_a_violation(error: ErrorCode) -> None:
    careless = CarelessAdministrator(make_cluster(1), Random(1), 2.0)
    with pytest.raises(InvariantViolation, match=error.name):
        careless.judge(MISTAKE, response(error))
