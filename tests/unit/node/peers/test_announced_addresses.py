"""Which announced addresses count (hole 45)."""

from __future__ import annotations

import pytest

from quorumd.ids import Endpoint, KafkaUuid, ReplicaKey
from quorumd.node.peers import address_book
from quorumd.node.peers.address_book import Address
from quorumd.node.peers.discovery import (
    MAX_UNVERIFIED,
    MAX_UNVERIFIED_PER_VOTER,
)
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.discover_brokers_request import DiscoverBrokersRequest
from quorumd.protocol.messages.discover_brokers_response import Broker, DiscoverBrokersResponse
from quorumd.raft.voters import Voter
from tests.support.node.discovery_harness import DIRECTORY, DiscoveryHarness, report_of
from tests.support.node.parts import OTHER_CLUSTER_ID
from tests.support.node.recording_session import RecordingSession

MINUTE_MS = 60_000
FAR_AHEAD_MS = 61 * MINUTE_MS


@pytest.fixture
def harness() -> DiscoveryHarness:
    return DiscoveryHarness()


@pytest.mark.parametrize(
    "response",
    [
        report_of(8),
        report_of(9, directory_id=KafkaUuid(bytes(15) + b"\x43")),
        report_of(9, cluster_id=OTHER_CLUSTER_ID),
        None,
    ],
    ids=["other node", "other directory", "other cluster", "no response"],
)
def test_announced_address_counts_only_if_the_announced_node_responds(
    harness: DiscoveryHarness, response: DiscoverBrokersResponse | None
) -> None:
    message = DiscoverBrokersRequest(9, 4, "nine", 9092, DIRECTORY)
    harness.announce(message)
    if response is None:
        harness.fail()
    else:
        harness.respond(ApiKey.DISCOVER_BROKERS, response)
    assert harness.discovery.address_of(9) is None
    harness.calls.clear()
    harness.announce(message)
    assert harness.queried(ApiKey.DISCOVER_BROKERS) == [("nine", 9092)], "it is verified again"


def test_voter_keeps_its_address_until_it_responds_at_another(harness: DiscoveryHarness) -> None:
    harness.announce(DiscoverBrokersRequest(2, 9, "moved", 9, DIRECTORY))
    assert harness.discovery.endpoint_of(2) == Endpoint("CONTROLLER", "two", 9092)
    harness.respond(ApiKey.DISCOVER_BROKERS, report_of(2))
    assert harness.discovery.endpoint_of(2) == Endpoint("CONTROLLER", "moved", 9)


def test_lists_of_announced_nodes_do_not_count(harness: DiscoveryHarness) -> None:
    """Only those of voters, and of configured and recorded addresses."""
    harness.announce(DiscoverBrokersRequest(9, 4, "nine", 9092, DIRECTORY))
    response = report_of(9)
    response.brokers = [Broker(2, 9, "false", 1, DIRECTORY), Broker(10, 9, "ten", 1, DIRECTORY)]
    harness.respond(ApiKey.DISCOVER_BROKERS, response)
    assert harness.discovery.endpoint_of(2) == Endpoint("CONTROLLER", "two", 9092)
    assert [node_id for node_id, _ in harness.discovery.addresses()] == [1, 2, 9]


def test_starts_far_in_the_future_are_not_recorded_without_a_response(harness: DiscoveryHarness) -> None:
    now = harness.time.clock.wall_ms()
    for is_known, boot_timestamp in ((True, now + 60 * MINUTE_MS), (False, now + FAR_AHEAD_MS)):
        host = f"started-{boot_timestamp}"
        harness.respond_with(Broker(2, boot_timestamp, host, 1, DIRECTORY))
        assert (harness.discovery.endpoint_of(2) == Endpoint("CONTROLLER", host, 1)) == is_known


def test_start_far_in_the_future_is_logged_once(
    harness: DiscoveryHarness, caplog: pytest.LogCaptureFixture
) -> None:
    for node_id in (9, 10):
        harness.announce(DiscoverBrokersRequest(node_id, 1 << 60, "future", 9092, DIRECTORY))
    (message,) = caplog.messages
    assert "node 9 is in the future" in message


def test_address_of_a_voter_is_verified_although_the_address_book_is_full(
    harness: DiscoveryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(address_book, "MAX_NODES", 2)
    harness.calls.clear()
    for node_id, host in ((9, "nine"), (3, "three")):
        harness.announce(DiscoverBrokersRequest(node_id, 4, host, 9092, DIRECTORY))
    assert harness.queried(ApiKey.DISCOVER_BROKERS) == [("three", 9092)]


def test_node_that_started_far_in_the_future_counts_once_it_responds(harness: DiscoveryHarness) -> None:
    """Boot timestamps never decrease: a node whose clock was wrong once could never become a voter again."""
    now = harness.time.clock.wall_ms()
    harness.announce(DiscoverBrokersRequest(9, now + FAR_AHEAD_MS, "nine", 9092, DIRECTORY))
    assert harness.discovery.address_of(9) is None
    harness.respond(ApiKey.DISCOVER_BROKERS, report_of(9))
    assert harness.discovery.address_of(9) == Address("nine", 9092, now, DIRECTORY)


def test_address_from_far_in_the_future_can_be_replaced(harness: DiscoveryHarness) -> None:
    """By a later start, whether the clock of that node was set back or not, and whatever the own clock does."""
    now = harness.time.clock.wall_ms()
    starts = [("nine", 1 << 60), ("moved", (1 << 60) + 1), ("again", now + 2)]
    for host, boot_timestamp in starts:
        harness.announce(DiscoverBrokersRequest(9, boot_timestamp, host, 9092, DIRECTORY))
        harness.respond(ApiKey.DISCOVER_BROKERS, report_of(9))
        assert harness.discovery.endpoint_of(9) == Endpoint("CONTROLLER", host, 9092)


def test_known_address_from_far_in_the_future_is_not_verified_again(harness: DiscoveryHarness) -> None:
    """The verification announces the own address: two nodes that are ahead of each other would never stop."""
    message = DiscoverBrokersRequest(9, 1 << 60, "nine", 9092, DIRECTORY)
    harness.announce(message)
    harness.respond(ApiKey.DISCOVER_BROKERS, report_of(9))
    harness.calls.clear()
    harness.time.pass_ms(5.0)
    harness.announce(message)
    assert harness.calls == []


def test_node_from_far_in_the_future_is_reachable_again_after_its_restart(harness: DiscoveryHarness) -> None:
    """At the same address; clients are not directed to unreachable nodes."""
    for boot_timestamp in (1 << 60, (1 << 60) + 1):
        harness.discovery.mark_reachable(2, False)
        harness.announce(DiscoverBrokersRequest(2, boot_timestamp, "two", 9092, DIRECTORY))
        harness.respond(ApiKey.DISCOVER_BROKERS, report_of(2))
        assert harness.discovery.is_reachable(2)


def test_former_voter_from_far_in_the_future_keeps_the_address_that_it_announced(
    harness: DiscoveryHarness,
) -> None:
    voter = Voter(ReplicaKey(2, DIRECTORY), (Endpoint("CONTROLLER", "two", 9092),))
    harness.discovery.learn_voters([voter], 3)
    harness.announce(DiscoverBrokersRequest(2, 1 << 60, "two", 9092, DIRECTORY))
    harness.respond(ApiKey.DISCOVER_BROKERS, report_of(2))
    harness.discovery.learn_voters([Voter(ReplicaKey(1, DIRECTORY), ())], 4)
    assert harness.discovery.endpoint_of(2) == Endpoint("CONTROLLER", "two", 9092)


def test_listed_node_from_far_in_the_future_counts_once_it_responds(harness: DiscoveryHarness) -> None:
    now = harness.time.clock.wall_ms()
    harness.respond_with(Broker(2, now + FAR_AHEAD_MS, "moved", 1, DIRECTORY))
    assert harness.discovery.endpoint_of(2) == Endpoint("CONTROLLER", "two", 9092)
    assert harness.calls[-1][:2] == ("moved", 1)
    harness.respond(ApiKey.DISCOVER_BROKERS, report_of(2))
    assert harness.discovery.endpoint_of(2) == Endpoint("CONTROLLER", "moved", 1)


def test_verifications_are_bounded(harness: DiscoveryHarness) -> None:
    harness.calls.clear()
    for number in range(MAX_UNVERIFIED + 10):
        harness.announce(DiscoverBrokersRequest(100 + number, 4, "nine", 1 + number, DIRECTORY))
    assert len(harness.queried(ApiKey.DISCOVER_BROKERS)) == MAX_UNVERIFIED


def test_voters_have_slots_for_verification_of_their_own(harness: DiscoveryHarness) -> None:
    harness.calls.clear()
    for number in range(MAX_UNVERIFIED):
        harness.announce(DiscoverBrokersRequest(100 + number, 4, "nine", 1 + number, DIRECTORY))
        harness.announce(DiscoverBrokersRequest(2, 4, "false", 1 + number, DIRECTORY))
    harness.announce(DiscoverBrokersRequest(2, 4, RecordingSession().origin.host, 9092, DIRECTORY))
    queried = harness.queried(ApiKey.DISCOVER_BROKERS)
    assert len(queried) == MAX_UNVERIFIED + MAX_UNVERIFIED_PER_VOTER + 1
    assert queried[-1] == (RecordingSession().origin.host, 9092)


def test_observer_is_forgotten_if_it_twice_does_not_respond(harness: DiscoveryHarness) -> None:
    harness.announce(DiscoverBrokersRequest(9, 4, "nine", 9092, DIRECTORY))
    harness.respond(ApiKey.DISCOVER_BROKERS, report_of(9))
    for is_known in (True, False):
        harness.fail()
        assert (harness.discovery.address_of(9) is not None) == is_known
