"""Fetches of consumers beyond their quota."""

from __future__ import annotations

from typing import Any

import pytest

from quorumd.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from quorumd.quotas.client_quotas import ClientQuotas, QuotaSettings
from quorumd.quotas.entities import CONSUMER_BYTE_RATE
from tests.support.broker.api_clients import Client
from tests.support.broker.simulated_brokers import SimulatedBrokers
from tests.support.log.data_batches import produced

LIMITS = {(("user", "alice"),): {CONSUMER_BYTE_RATE: 100.0}}
"""Bytes per second: alice may fetch 1000 at once."""


@pytest.fixture
def cluster() -> SimulatedBrokers:
    cluster = SimulatedBrokers()
    cluster.start()
    cluster.create_topic("events", (1,))
    cluster.await_leader("events")
    return cluster


@pytest.fixture
def alice(cluster: SimulatedBrokers) -> Client:
    client = Client(cluster)
    client.session.origin.principal = "User:alice"
    quotas = ClientQuotas(QuotaSettings(), lambda: LIMITS)
    client.use(cluster.brokers[1].broker.routes(quotas=quotas))
    return client


def fetch(client: Client, offset: int | None, **session: int) -> Any:
    """Fetch from an offset on, or what the session has."""
    partitions = (
        [] if offset is None else [FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)]
    )
    topics = [FetchTopic("events", partitions=partitions)] if partitions else []
    return client.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics, **session), 12)


def size_of(response: Any) -> int:
    """The bytes of records in a response without an error."""
    assert response.error_code == 0
    ((partition,),) = (topic.partitions for topic in response.responses)
    return len(partition.records)


def test_fetch_beyond_the_quota_gets_no_records(cluster: SimulatedBrokers, alice: Client) -> None:
    records = produced([(b"k", bytes(600))])
    for _ in range(2):
        Client(cluster).produce(records)
    first = fetch(alice, 0, session_epoch=0)
    assert size_of(first) == len(records), "two batches are more than may be fetched at once"
    assert first.throttle_time_ms == 0
    began_ms, epoch = cluster.heap.now_ms, 1
    response = fetch(alice, 1, session_id=first.session_id, session_epoch=epoch)
    assert response.throttle_time_ms > 0
    while response.throttle_time_ms:
        assert response.responses == []
        assert (response.error_code, response.session_id) == (0, first.session_id)
        cluster.run_for(response.throttle_time_ms)
        epoch += 1
        response = fetch(alice, None, session_id=first.session_id, session_epoch=epoch)
    assert size_of(response) == len(records), "what the throttled responses left out"
    assert 2 * len(records) / 100 < 10 + (cluster.heap.now_ms - began_ms) / 1000 < 25


def test_throttled_fetch_creates_no_session(cluster: SimulatedBrokers, alice: Client) -> None:
    Client(cluster).produce(produced([(b"k", bytes(600))]))
    fetch(alice, 0)
    throttled = fetch(alice, 0, session_epoch=0)
    assert throttled.throttle_time_ms > 0
    assert throttled.session_id == 0


def test_batch_beyond_all_windows_is_sent_to_a_client_that_waited(
    cluster: SimulatedBrokers, alice: Client
) -> None:
    records = produced([(b"k", bytes(5000))])
    for _ in range(2):
        Client(cluster).produce(records)
    first = fetch(alice, 0)
    assert size_of(first) == len(records)
    assert first.throttle_time_ms > 40_000
    assert fetch(alice, 1).responses == []
    cluster.run_for(11_000)
    assert size_of(fetch(alice, 1)) == len(records)
