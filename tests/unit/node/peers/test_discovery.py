from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quorumd.ids import METADATA_TOPIC, ZERO_UUID, Endpoint, ReplicaKey
from quorumd.node.peers.address_book import Address
from quorumd.node.peers.connection import Failure
from quorumd.node.peers.discovery import (
    SEARCH_INTERVAL_MS,
    STABLE_INTERVAL_MS,
)
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.messages.discover_brokers_request import DiscoverBrokersRequest, Listener
from quorumd.protocol.messages.discover_brokers_response import Broker, DiscoverBrokersResponse
from quorumd.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from quorumd.raft.events import LeaderReported, PeerDiscovered
from quorumd.raft.messages import BeginEpochRequest
from quorumd.raft.voters import Voter
from tests.support.node.discovery_harness import DIRECTORY, OWN_ADDRESS, DiscoveryHarness, report_of
from tests.support.node.parts import CLUSTER_ID, OTHER_CLUSTER_ID
from tests.support.node.recording_session import RecordingSession, request_of
from tests.support.node.scripted_engine import voters_of


@pytest.fixture
def harness() -> DiscoveryHarness:
    return DiscoveryHarness()


def test_hole_25_configured_addresses_are_replaced_by_gossip(
    harness: DiscoveryHarness,
) -> None:
    assert harness.discovery.endpoint_of(2) == Endpoint("CONTROLLER", "two", 9092)
    assert PeerDiscovered(ReplicaKey(2), Endpoint("CONTROLLER", "two", 9092)) in harness.events
    harness.respond_with(Broker(2, 1, "elsewhere", 1, DIRECTORY))
    assert harness.discovery.endpoint_of(2) == Endpoint("CONTROLLER", "elsewhere", 1)
    assert harness.events[-1] == PeerDiscovered(
        ReplicaKey(2, DIRECTORY), Endpoint("CONTROLLER", "elsewhere", 1)
    )


def test_request_announces_the_own_address(harness: DiscoveryHarness) -> None:
    message = harness.calls[0][2].build(0)
    assert isinstance(message, DiscoverBrokersRequest)
    assert (message.replica_id, message.boot_timestamp, message.host, message.port) == (1, 77, "me", 9092)
    assert message.replica_directory_id == DIRECTORY


def test_first_round_queries_all_nodes(harness: DiscoveryHarness) -> None:
    """Nodes that found it unreachable would otherwise learn of its return only by a random query."""
    assert harness.queried(ApiKey.DISCOVER_BROKERS) == [("seed", 1), ("two", 9092)]


def test_first_round_announces_nothing_twice() -> None:
    harness = DiscoveryHarness(leader_id=2)
    assert harness.queried(ApiKey.DISCOVER_BROKERS) == [("seed", 1), ("two", 9092)]


def test_request_announces_all_listeners_of_a_node_with_several(harness: DiscoveryHarness) -> None:
    harness.discovery.stop()
    endpoints = [Endpoint("CONTROLLER", "me", 9092), Endpoint("SECURE", "me", 9093)]
    for own_endpoints, announced in ((endpoints[:1], []), (endpoints, endpoints)):
        harness.discovery.start(OWN_ADDRESS, own_endpoints)
        message: Any = harness.calls[-1][2].build(0)
        assert [(each.name, each.host, each.port) for each in message.listeners] == announced


def test_voter_is_reached_at_its_listener_for_other_nodes(harness: DiscoveryHarness) -> None:
    endpoints = (Endpoint("SECURE", "secure", 9093), Endpoint("CONTROLLER", "three", 9092))
    harness.discovery.learn_voters([Voter(ReplicaKey(3, DIRECTORY), endpoints)], 4)
    assert harness.discovery.endpoint_of(3) == endpoints[1]


def test_all_known_addresses_are_queried_while_a_voter_has_none(
    harness: DiscoveryHarness,
) -> None:
    assert harness.discovery.missing_voters() == [3]
    harness.time.pass_ms(30_000)
    assert set(harness.queried(ApiKey.DISCOVER_BROKERS)) == {("seed", 1), ("two", 9092)}
    assert len(harness.calls) > 30


def test_interval_is_long_once_all_addresses_are_known(harness: DiscoveryHarness) -> None:
    harness.settle()
    harness.time.pass_ms(10 * STABLE_INTERVAL_MS)
    assert 9 <= len(harness.queried(ApiKey.DISCOVER_BROKERS)) <= 10
    assert harness.queried(ApiKey.METADATA) == []


def test_hole_14_search_starts_soon_after_the_leader_is_lost(harness: DiscoveryHarness) -> None:
    """Even in the middle of a long interval: a leader without its majority may be a zombie."""
    harness.settle()
    harness.engine.needs_leader = True
    harness.time.pass_ms(SEARCH_INTERVAL_MS)
    assert harness.queried(ApiKey.METADATA)


def test_hole_2_every_node_is_stored_and_returned(harness: DiscoveryHarness) -> None:
    """Including observers, once they have responded: a node must be reachable to become a voter."""
    message = DiscoverBrokersRequest(9, 4, "nine", 9092, DIRECTORY)
    assert [each[0] for each in harness.announce(message)] == [1, 2]
    assert harness.calls[-1][:2] == ("nine", 9092)
    harness.respond(ApiKey.DISCOVER_BROKERS, report_of(9))
    assert harness.announce(message) == [
        (1, 77, "me", 9092),
        (2, 0, "two", 9092),
        (9, 4, "nine", 9092),
    ]


def test_hole_1_admin_client_is_served_and_not_stored(harness: DiscoveryHarness) -> None:
    session = RecordingSession()
    harness.discovery.discover_brokers(session, request_of(DiscoverBrokersRequest(-1, 0, "", 0), 0))
    assert [b.voter_id for b in session.responses[0].brokers] == [1, 2]


def test_hole_3_unknown_cluster_id_is_empty_and_addresses_of_other_clusters_are_ignored() -> None:
    harness = DiscoveryHarness(cluster_id=None)
    session = RecordingSession()
    harness.discovery.discover_brokers(session, request_of(DiscoverBrokersRequest(-1), 0))
    assert session.responses[0].cluster_id == ""
    harness = DiscoveryHarness()
    harness.respond_with(Broker(3, 5, "three", 9092, ZERO_UUID), cluster_id=OTHER_CLUSTER_ID)
    assert harness.discovery.missing_voters() == [3]
    harness.respond_with(Broker(3, 5, "three", 9092, ZERO_UUID), cluster_id=CLUSTER_ID)
    assert harness.discovery.missing_voters() == []


def test_own_address_is_not_learned_from_other_nodes(harness: DiscoveryHarness) -> None:
    harness.respond_with(Broker(1, 1 << 60, "impostor", 9092, ZERO_UUID))
    assert harness.discovery.address_of(1) == OWN_ADDRESS


def test_own_address_is_known_however_far_the_own_clock_was_ahead(caplog: pytest.LogCaptureFixture) -> None:
    """The start times of a node never decrease, so its own may be in the future, and it cannot verify itself."""
    ahead = replace(OWN_ADDRESS, boot_timestamp=1 << 60)
    harness = DiscoveryHarness(own_address=ahead)
    assert harness.discovery.address_of(1) == ahead
    assert (1, ahead.boot_timestamp, ahead.host, ahead.port) in harness.announce(DiscoverBrokersRequest(-1))
    assert caplog.records == []


def test_hole_27_gossip_does_not_show_liveness(harness: DiscoveryHarness) -> None:
    harness.discovery.mark_reachable(2, False)
    harness.respond_with(Broker(2, 0, "two", 9092, ZERO_UUID))
    assert not harness.discovery.is_reachable(2)


def test_leader_in_metadata_is_reported_if_its_address_is_known(harness: DiscoveryHarness) -> None:
    harness.engine.needs_leader = True
    harness.time.pass_ms(SEARCH_INTERVAL_MS)
    harness.events.clear()
    harness.respond(ApiKey.METADATA, metadata(leader_id=3))
    assert harness.events == [], "a leader without address cannot be fetched from"
    harness.respond(ApiKey.METADATA, metadata(leader_id=-1))
    assert harness.events == []
    harness.respond(ApiKey.METADATA, metadata(leader_id=2, cluster_id=OTHER_CLUSTER_ID))
    assert harness.events == []
    harness.respond(ApiKey.METADATA, metadata(leader_id=2))
    assert harness.events == [LeaderReported(2, 6)]


def voter(node_id: int, host: str) -> Voter:
    return Voter(ReplicaKey(node_id, DIRECTORY), (Endpoint("CONTROLLER", host, 9092),))


def test_newest_voter_record_wins_over_older_ones_and_over_the_configuration(
    harness: DiscoveryHarness,
) -> None:
    """Three voters moved one after the other: only the newest record has all their addresses."""
    for offset, host in ((1, "two"), (50, "moved"), (90, "moved-again")):
        harness.discovery.learn_voters([voter(2, host)], offset)
    assert harness.discovery.address_of(2) == Address("moved-again", 9092, 0, DIRECTORY, 90)
    harness.discovery.learn_voters([voter(2, "moved")], 50)
    assert harness.discovery.address_of(2) == Address("moved-again", 9092, 0, DIRECTORY, 90)


def test_announced_address_wins_over_every_record(harness: DiscoveryHarness) -> None:
    harness.respond_with(Broker(2, 1, "stated", 9092, DIRECTORY))
    harness.discovery.learn_voters([voter(2, "recorded")], 90)
    assert harness.discovery.endpoint_of(2) == Endpoint("CONTROLLER", "stated", 9092)


def test_announced_address_is_that_of_the_listener_for_other_nodes(harness: DiscoveryHarness) -> None:
    listeners = [Listener("SECURE", "secure", 1), Listener("CONTROLLER", "three", 2), Listener("X", "x", 3)]
    harness.announce(DiscoverBrokersRequest(3, 9, "first", 9092, DIRECTORY, listeners))
    harness.respond(ApiKey.DISCOVER_BROKERS, report_of(3))
    assert harness.discovery.endpoint_of(3) == Endpoint("CONTROLLER", "three", 2)


@pytest.mark.parametrize("boot_timestamp", [0, 9])
def test_address_announced_by_a_new_leader_is_recorded(
    harness: DiscoveryHarness, boot_timestamp: int
) -> None:
    """With a boot timestamp or, like a stock leader, without: records and earlier announcements are older."""
    if boot_timestamp:
        harness.discovery.learn(3, Address("stated", 9092, boot_timestamp - 1, DIRECTORY))
    else:
        harness.discovery.learn_voters([voter(3, "recorded")], 4)
    announced = BeginEpochRequest(
        3, 5, ReplicaKey(1), (Endpoint("CONTROLLER", "moved", 9093),), boot_timestamp
    )
    harness.discovery.learn_leader(announced, 12)
    address = harness.discovery.address_of(3)
    assert address is not None
    assert (address.host, address.port, address.directory_id) == ("moved", 9093, DIRECTORY)
    assert harness.events[-1] == PeerDiscovered(
        ReplicaKey(3, DIRECTORY), Endpoint("CONTROLLER", "moved", 9093)
    )


def test_announced_address_is_replaced_by_a_newer_one(harness: DiscoveryHarness) -> None:
    """That of a stock leader by a later voter record, that of a quorumd node by a later start."""
    host_port = (Endpoint("CONTROLLER", "moved", 9093),)
    harness.discovery.learn_leader(BeginEpochRequest(3, 5, ReplicaKey(1), host_port), 12)
    harness.discovery.learn_voters([voter(3, "recorded")], 12)
    assert harness.discovery.address_of(3) == Address("moved", 9093, 0, ZERO_UUID, 12)
    harness.discovery.learn_voters([voter(3, "recorded")], 13)
    assert harness.discovery.address_of(3) == Address("recorded", 9092, 0, DIRECTORY, 13)
    stated = Address("stated", 9092, 10, DIRECTORY)
    harness.discovery.learn(3, stated)
    harness.discovery.learn_leader(BeginEpochRequest(3, 5, ReplicaKey(1), host_port, 9), 14)
    assert harness.discovery.address_of(3) == stated


def test_address_in_a_truncated_voter_record_is_replaced_by_the_previous_one(
    harness: DiscoveryHarness,
) -> None:
    harness.discovery.learn_voters([voter(2, "committed")], 50)
    harness.discovery.learn_voters([voter(2, "truncated")], 90)
    harness.discovery.log_truncated(80)
    harness.discovery.learn_voters([voter(2, "committed")], 50)
    assert harness.discovery.endpoint_of(2) == Endpoint("CONTROLLER", "committed", 9092)


def test_configured_addresses_are_queried_although_the_log_has_others(harness: DiscoveryHarness) -> None:
    """After all nodes were moved while they were down, the records are old and the properties new."""
    harness.discovery.learn_voters([voter(2, "before"), voter(3, "before-3")], 50)
    harness.calls.clear()
    harness.engine.needs_leader = True
    harness.time.pass_ms(30_000)
    assert {("two", 9092), ("before", 9092), ("seed", 1)} <= set(harness.queried(ApiKey.DISCOVER_BROKERS))


def test_moved_voter_is_queried_at_its_recorded_address_despite_an_announcement(
    harness: DiscoveryHarness,
) -> None:
    harness.respond_with(Broker(2, 1, "stated", 9092, DIRECTORY))
    harness.discovery.learn_voters([voter(2, "moved")], 90)
    harness.calls.clear()
    harness.engine.needs_leader = True
    harness.time.pass_ms(30_000)
    assert {("stated", 9092), ("moved", 9092)} <= set(harness.queried(ApiKey.DISCOVER_BROKERS))


def test_removed_voters_are_forgotten_unless_they_announced_an_address(harness: DiscoveryHarness) -> None:
    harness.discovery.learn_voters([voter(2, "two"), voter(3, "three"), voter(4, "four")], 50)
    harness.respond_with(Broker(4, 9, "four", 9092, DIRECTORY))
    harness.engine.voters = voters_of(2)
    harness.discovery.learn_voters([voter(2, "two")], 60)
    assert [node_id for node_id, _ in harness.discovery.addresses()] == [1, 2, 4]


def test_voters_without_address_are_counted_among_the_current_voters(harness: DiscoveryHarness) -> None:
    assert harness.discovery.missing_voters() == [3]
    harness.engine.voters = voters_of(1, 2)
    assert harness.discovery.missing_voters() == []
    harness.engine.voters = voters_of(1, 2, 7)
    assert harness.discovery.missing_voters() == [7]


def test_observer_that_does_not_respond_is_unreachable(harness: DiscoveryHarness) -> None:
    harness.settle()
    harness.discovery.learn(9, Address("nine", 9092, 4))
    harness.engine.needs_leader = True
    while ("nine", 9092) not in harness.queried(ApiKey.DISCOVER_BROKERS):
        harness.time.pass_ms(SEARCH_INTERVAL_MS)
    call = next(call for host, _, call in harness.calls if host == "nine")
    call.on_failure(Failure("refused", refused=True))
    assert not harness.discovery.is_reachable(9)
    call.on_response(DiscoverBrokersResponse(0, "", []))
    assert harness.discovery.is_reachable(9)


def test_nodes_that_do_not_respond_are_ignored(harness: DiscoveryHarness) -> None:
    harness.calls[0][2].on_failure(Failure("gone"))
    harness.time.pass_ms(1000)
    assert len(harness.calls) > 1


def test_stop_ends_the_rounds(harness: DiscoveryHarness) -> None:
    harness.discovery.stop()
    harness.calls.clear()
    harness.time.pass_ms(10 * STABLE_INTERVAL_MS)
    assert harness.calls == []


def metadata(leader_id: int, cluster_id: str = CLUSTER_ID) -> MetadataResponse:
    partition = MetadataResponsePartition(0, 0, leader_id, 6)
    other = MetadataResponseTopic(0, "another", partitions=[MetadataResponsePartition(0, 0, 1, 9)])
    topic = MetadataResponseTopic(0, METADATA_TOPIC, partitions=[partition])
    return MetadataResponse(0, [], cluster_id, leader_id, [other, topic])


def test_address_is_announced_to_a_new_leader_until_it_responds() -> None:
    """The leader may be unreachable at first, and adds no voter whose address it does not know."""
    harness = settled_harness()
    harness.discovery.announce_to(2)
    assert harness.queried(ApiKey.DISCOVER_BROKERS) == [("two", 9092)]
    harness.fail()
    for count in (2, 3):
        harness.time.pass_ms(SEARCH_INTERVAL_MS)
        assert harness.queried(ApiKey.DISCOVER_BROKERS) == [("two", 9092)] * count
    harness.respond_with()
    harness.time.pass_ms(3 * SEARCH_INTERVAL_MS)
    assert len(harness.queried(ApiKey.DISCOVER_BROKERS)) == 3


def test_address_is_announced_once_the_leader_has_an_address() -> None:
    harness = settled_harness()
    harness.discovery.announce_to(4)
    assert harness.queried(ApiKey.DISCOVER_BROKERS) == []
    harness.discovery.learn(4, Address("four", 9092, 1))
    harness.time.pass_ms(SEARCH_INTERVAL_MS)
    assert harness.queried(ApiKey.DISCOVER_BROKERS) == [("four", 9092)]


def test_response_of_another_node_does_not_end_the_announcements() -> None:
    harness = settled_harness()
    harness.discovery.announce_to(2)
    (_, _, introduction), response = harness.calls[0], DiscoverBrokersResponse(0, "", [])
    harness.discovery.learn(5, Address("five", 9092, 1))
    harness.time.pass_ms(2 * STABLE_INTERVAL_MS)
    others = [
        call for host, _, call in harness.calls if host != "two" and call.api_key == ApiKey.DISCOVER_BROKERS
    ]
    assert others
    for call in others:
        call.on_response(response)
    harness.calls.clear()
    harness.time.pass_ms(SEARCH_INTERVAL_MS)
    assert ("two", 9092) in harness.queried(ApiKey.DISCOVER_BROKERS)
    introduction.on_response(response)
    harness.calls.clear()
    harness.time.pass_ms(5 * SEARCH_INTERVAL_MS)
    assert ("two", 9092) not in harness.queried(ApiKey.DISCOVER_BROKERS)


def settled_harness() -> DiscoveryHarness:
    """A harness just after one of its periodic queries."""
    harness = DiscoveryHarness()
    harness.settle()
    harness.time.pass_ms(2 * SEARCH_INTERVAL_MS)
    harness.calls.clear()
    return harness


def test_query_has_the_request_timeout(harness: DiscoveryHarness) -> None:
    assert {call.deadline_ms for _, _, call in harness.calls} == {harness.time.clock.now_ms() + 500.0}
