"""The administrator whose requests must be refused."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.errors import ErrorCode
from quorumd.protocol.messages.delete_topics_request import DeleteTopicsRequest
from quorumd.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from quorumd.simulator.checkers import InvariantViolation
from quorumd.simulator.workload.careless_administrator import CarelessAdministrator
from quorumd.simulator.workload.mistakes import Mistake
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
