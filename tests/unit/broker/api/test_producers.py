from __future__ import annotations

import pytest

from quorumd.broker.controller_requests import producer_ids as module
from quorumd.errors import ErrorCode
from quorumd.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from quorumd.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from quorumd.protocol.messages.init_producer_id_request import InitProducerIdRequest
from tests.support.broker.api_clients import Client
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.log.data_batches import produced


@pytest.fixture
def cluster() -> SimulatedBrokers:
    cluster = SimulatedBrokers((1, 2))
    cluster.start()
    return cluster


def blocks(cluster: SimulatedBrokers) -> int:
    """Number of requests for producer ids."""
    return sum(isinstance(request, AllocateProducerIdsRequest) for request in cluster.controller.requests)


@pytest.mark.parametrize("version", range(6))
def test_idempotent_producers_get_ids_of_their_own(cluster: SimulatedBrokers, version: int) -> None:
    clients = [Client(cluster, broker_id) for broker_id in (1, 2, 1, 2)]
    responses = [client.call(InitProducerIdRequest(None, 1000), version) for client in clients]
    assert [(each.error_code, each.producer_epoch) for each in responses] == [(0, 0)] * 4
    ids = [each.producer_id for each in responses]
    assert len(set(ids)) == 4
    assert (ids[2], ids[3]) == (ids[0] + 1, ids[1] + 1)


def test_next_block_is_requested_before_the_current_one_is_used_up(cluster: SimulatedBrokers) -> None:
    client = Client(cluster)
    first = client.call(InitProducerIdRequest(None)).producer_id
    before = blocks(cluster)
    ids = [client.call(InitProducerIdRequest(None)).producer_id for _ in range(1_500)]
    assert ids[:999] == list(range(first + 1, first + 1_000))
    assert len(set(ids)) == 1_500
    assert blocks(cluster) == before + 1


def test_producers_retry_while_no_controller_responds(cluster: SimulatedBrokers) -> None:
    client = Client(cluster)
    cluster.brokers[1].is_isolated = True
    response = client.call(InitProducerIdRequest(None))
    assert (response.error_code, response.producer_id) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
    cluster.brokers[1].is_isolated = False
    cluster.run_for(module.RETRY_MS)
    assert client.call(InitProducerIdRequest(None)).error_code == 0


def test_transactional_ids_need_a_coordinator(cluster: SimulatedBrokers) -> None:
    client = Client(cluster)
    errors = [client.call(InitProducerIdRequest(name, 1000)).error_code for name in ("", "orders")]
    assert errors == [ErrorCode.INVALID_REQUEST, ErrorCode.NOT_COORDINATOR]


def test_producers_of_a_partition(cluster: SimulatedBrokers) -> None:
    cluster.create_topic("events", (1,))
    cluster.await_leader("events")
    client = Client(cluster)
    client.produce(produced([(b"k", b"v")] * 3, producer_id=5, producer_epoch=2, sequence=0))
    client.append_verified(produced(producer_id=6, producer_epoch=0, sequence=0, transactional=True))
    found, unknown = (
        client.call(DescribeProducersRequest([TopicRequest("events", [0, 9])])).topics[0].partitions
    )
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [
        (
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.current_txn_start_offset,
        )
        for each in found.active_producers
    ] == [(5, 2, 2, 1000, -1), (6, 0, 0, 1000, 3)]
