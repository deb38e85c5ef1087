"""Large requests with many items of one name, or many items in one: no turn takes longer for them."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.controller.config_requests import MAX_CONFIGS
from quorumd.controller.partition import Partition
from quorumd.errors import ErrorCode
from quorumd.node.sessions import request_splitting
from quorumd.node.sessions.request_splitting import SPLIT_RULES, RequestPart
from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from quorumd.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from quorumd.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from quorumd.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from tests.support.node.controller_harness import ControllerHarness
from tests.support.node.recording_session import RecordingSession, request_of

COUNT = 3 * MAX_PARTITIONS_PER_PART + 1


@pytest.fixture
def cluster() -> ControllerHarness:
    cluster = ControllerHarness()
    cluster.begin_with(*[Partition(replicas=(101,), isr=(101,), leader=101)] * COUNT)
    return cluster


def split(cluster: ControllerHarness, message: Message, version: int) -> list[Any]:
    """The parts of a large request, or the request as its only part."""
    request = request_of(message, version)
    parts = request_splitting.parts_of(cluster.controller, request, MAX_PARTITIONS_PER_PART)
    return [part for part in parts if part is not None] if parts is not None else [RequestPart(message)]


def run(cluster: ControllerHarness, message: Message, version: int) -> RecordingSession:
    """Send a request that changes nothing, and take all turns."""
    session = cluster.request(message, version=version)
    for finish in (lambda: None, cluster.confirm):
        finish()
        while cluster.turns:
            cluster.turns.pop(0)()
    assert cluster.batches == []
    return session


@pytest.mark.parametrize("number", [2, COUNT - 1, COUNT, COUNT + 1])
def test_many_entries_of_one_entity_are_rejected_in_parts(cluster: ControllerHarness, number: int) -> None:
    """50,000 of them took 240 ms in one turn."""
    entry = EntryData([EntityData("user", "alice")], [OpData("producer_byte_rate", 1.0, False)])
    message = AlterClientQuotasRequest([entry] * number, False)
    sizes = [len(part.message.entries) for part in split(cluster, message, 1)]
    assert sum(sizes) == number
    assert 2 <= min(sizes) <= max(sizes) <= MAX_PARTITIONS_PER_PART + 1
    session = run(cluster, message, 1)
    errors = [each.error_code for each in session.responses[0].entries]
    assert errors == [ErrorCode.INVALID_REQUEST] * number


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (
            AlterUserScramCredentialsRequest(
                [], [ScramCredentialUpsertion("alice", 1, 4096, b"salt", bytes(32))] * COUNT
            ),
            0,
        ),
        (IncrementalAlterConfigsRequest([AlterConfigsResource(2, "t", [])] * COUNT), 1),
    ],
    ids=["AlterUserScramCredentials", "IncrementalAlterConfigs"],
)
def test_items_with_one_result_for_their_name_are_planned_twice_at_most(
    cluster: ControllerHarness, message: Message, version: int
) -> None:
    """50,000 credentials of one user took 59 ms in one turn."""
    (part,) = split(cluster, message, version)
    field = SPLIT_RULES[int(message.API_KEY or 0)].also or "resources"
    assert len(getattr(part.message, field)) == 2
    session = run(cluster, message, version)
    assert len(errors_in(session.responses[0])) == 1


def test_partitions_of_one_topic_are_elected_in_parts(cluster: ControllerHarness) -> None:
    """50,000 of them took 86 ms in one turn."""
    message = ElectLeadersRequest(0, [TopicPartitions("t", list(range(COUNT)))], 1000)
    sizes = [len(part.message.topic_partitions[0].partitions) for part in split(cluster, message, 2)]
    assert sizes == [MAX_PARTITIONS_PER_PART] * 3 + [1]
    session = run(cluster, message, 2)
    (topic,) = session.responses[0].replica_election_results
    assert [each.partition_id for each in topic.partition_result] == list(range(COUNT))


def test_resources_with_many_configs_are_altered_in_parts(cluster: ControllerHarness) -> None:
    """50,000 configs of one resource took 112 ms in one turn."""
    configs = [AlterableConfig(f"key-{number}", 0, "1") for number in range(MAX_CONFIGS)]
    resources = [AlterConfigsResource(4, str(broker), configs) for broker in range(3)]
    assert len(split(cluster, IncrementalAlterConfigsRequest(resources), 1)) == 3
