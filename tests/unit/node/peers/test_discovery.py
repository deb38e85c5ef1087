from __future__ import annotations

from random import Random
from typing import Any

import pytest

from quorumd.ids import METADATA_TOPIC, ZERO_UUID, Endpoint, KafkaUuid, ReplicaKey
from quorumd.node.identity.founding import Founding
from quorumd.node.peers.address_book import Address
from quorumd.node.peers.connection import Call, Failure
from quorumd.node.peers.discovery import SEARCH_INTERVAL_MS, STABLE_INTERVAL_MS, Discovery
from quorumd.node.settings import NodeSettings
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.discover_brokers_request import DiscoverBrokersRequest
from quorumd.protocol.messages.discover_brokers_response import Broker, DiscoverBrokersResponse
from quorumd.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from quorumd.raft.events import Event, LeaderReported, PeerDiscovered
from quorumd.raft.messages import BeginEpochRequest
from quorumd.raft.voters import Voter
from quorumd.simulator.environment.entropy import SimulatedEntropy
from tests.support.node.parts import NodeParts
from tests.support.raft.single_engine import EngineHarness

OURS, THEIRS = "o" * 22, "t" * 22
DIRECTORY = KafkaUuid(bytes(15) + b"\x42")
OWN = Address("me", 9092, 77, DIRECTORY)


class DiscoveryHarness(NodeParts):
    """Node 1 of voters 1 to 3, which knows the address of node 2 and one bootstrap server."""

    def __init__(self, cluster_id: str | None = OURS) -> None:
        super().__init__(cluster_id)
        self.calls: list[tuple[str, int, Call]] = []
        self.events: list[Event] = []
        self.needs_leader = False
        self.voter_ids = (1, 2, 3)
        own, endpoint = ReplicaKey(1, DIRECTORY), Endpoint("CONTROLLER", "me", 9092)
        settings = NodeSettings(1, "/data", endpoint, endpoint)
        engine = EngineHarness((1,), me=own).engine
        self.discovery = Discovery(
            own,
            "CONTROLLER",
            [("seed", 1)],
            self.time.clock,
            SimulatedEntropy(Random(1)),
            self.identity,
            lambda host, port, call: self.calls.append((host, port, call)),
            self.events.append,
            lambda: self.needs_leader,
            lambda: self.voter_ids,
            Founding(own, settings, engine, self.identity, None),
            500.0,
        )
        self.discovery.start(OWN, [(2, "two", 9092)])

    def asked(self, api_key: int) -> list[tuple[str, int]]:
        return [(host, port) for host, port, call in self.calls if call.api_key == api_key]

    def answer(self, api_key: int, answer: Any) -> None:
        """Let the last call of an API be answered."""
        *_, call = [call for _, _, call in self.calls if call.api_key == api_key]
        call.on_response(answer)

    def tell(self, *brokers: Broker, cluster_id: str = "") -> None:
        self.answer(ApiKey.DISCOVER_BROKERS, DiscoverBrokersResponse(0, cluster_id, list(brokers)))

    def fail(self) -> None:
        """Let the last call fail."""
        self.calls[-1][2].on_failure(Failure("no answer in time"))

    def settle(self) -> None:
        self.tell(Broker(3, 5, "three", 9092, ZERO_UUID))
        self.time.pass_ms(STABLE_INTERVAL_MS * 2)
        self.calls.clear()
        self.events.clear()


class Answers:
    """A session that keeps what is answered."""

    peer = "test:1"
    is_controller_client = False

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def respond(self, request: Request, message: Any) -> None:
        self.messages.append(message)

    def respond_encoded(self, request: Request, answer: bytes) -> None:
        self.messages.append(answer)


@pytest.fixture
def harness() -> DiscoveryHarness:
    return DiscoveryHarness()


def test_hole_25_addresses_of_the_configuration_seed_the_book_and_give_way_to_gossip(
    harness: DiscoveryHarness,
) -> None:
    assert harness.discovery.endpoint_of(2) == Endpoint("CONTROLLER", "two", 9092)
    assert PeerDiscovered(ReplicaKey(2), Endpoint("CONTROLLER", "two", 9092)) in harness.events
    harness.tell(Broker(2, 1, "elsewhere", 1, DIRECTORY))
    assert harness.discovery.endpoint_of(2) == Endpoint("CONTROLLER", "elsewhere", 1)
    assert harness.events[-1] == PeerDiscovered(
        ReplicaKey(2, DIRECTORY), Endpoint("CONTROLLER", "elsewhere", 1)
    )


def test_asks_with_its_own_address(harness: DiscoveryHarness) -> None:
    message = harness.calls[0][2].build(0)
    assert isinstance(message, DiscoverBrokersRequest)
    assert (message.replica_id, message.boot_timestamp, message.host, message.port) == (1, 77, "me", 9092)
    assert message.replica_directory_id == DIRECTORY


def test_tells_everybody_at_the_start_that_it_is_there(harness: DiscoveryHarness) -> None:
    """Whoever found it gone would otherwise hear of its return when chance picks the right pair."""
    assert harness.asked(ApiKey.DISCOVER_BROKERS) == [("seed", 1), ("two", 9092)]


def test_asks_bootstrap_servers_and_known_nodes_while_a_voter_has_no_address(
    harness: DiscoveryHarness,
) -> None:
    assert harness.discovery.missing_voters() == [3]
    harness.time.pass_ms(30_000)
    assert set(harness.asked(ApiKey.DISCOVER_BROKERS)) == {("seed", 1), ("two", 9092)}
    assert len(harness.calls) > 30


def test_asks_seldom_once_all_is_known(harness: DiscoveryHarness) -> None:
    harness.settle()
    harness.time.pass_ms(10 * STABLE_INTERVAL_MS)
    assert 9 <= len(harness.asked(ApiKey.DISCOVER_BROKERS)) <= 10
    assert harness.asked(ApiKey.METADATA) == []


def test_hole_14_looks_for_the_leader_soon_after_it_is_needed(harness: DiscoveryHarness) -> None:
    """Also from the middle of a long pause: a leader cut off from its majority is a zombie by then."""
    harness.settle()
    harness.needs_leader = True
    harness.time.pass_ms(SEARCH_INTERVAL_MS)
    assert harness.asked(ApiKey.METADATA)


def test_hole_2_every_node_is_stored_and_told(harness: DiscoveryHarness) -> None:
    """Not only voters: an observer must be reachable to become one."""
    session = Answers()
    asked = DiscoverBrokersRequest(9, 4, "nine", 9092, DIRECTORY)
    harness.discovery.discover_brokers(session, request_of(asked))
    (answer,) = session.messages
    assert [(b.voter_id, b.boot_timestamp, b.host, b.port) for b in answer.brokers] == [
        (1, 77, "me", 9092),
        (2, 0, "two", 9092),
        (9, 4, "nine", 9092),
    ]
    assert answer.cluster_id == OURS


def test_hole_1_an_admin_client_asks_and_is_not_stored(harness: DiscoveryHarness) -> None:
    session = Answers()
    harness.discovery.discover_brokers(session, request_of(DiscoverBrokersRequest(-1, 0, "", 0)))
    assert [b.voter_id for b in session.messages[0].brokers] == [1, 2]


def test_hole_3_a_node_without_cluster_tells_the_empty_id_and_addresses_of_other_clusters_are_ignored() -> (
    None
):
    harness = DiscoveryHarness(cluster_id=None)
    session = Answers()
    harness.discovery.discover_brokers(session, request_of(DiscoverBrokersRequest(-1)))
    assert session.messages[0].cluster_id == ""
    harness = DiscoveryHarness()
    harness.tell(Broker(3, 5, "three", 9092, ZERO_UUID), cluster_id=THEIRS)
    assert harness.discovery.missing_voters() == [3]
    harness.tell(Broker(3, 5, "three", 9092, ZERO_UUID), cluster_id=OURS)
    assert harness.discovery.missing_voters() == []


def test_nobody_else_says_where_this_node_is(harness: DiscoveryHarness) -> None:
    harness.tell(Broker(1, 1 << 60, "impostor", 9092, ZERO_UUID))
    assert harness.discovery.address_of(1) == OWN


def test_hole_27_gossip_is_no_sign_of_life(harness: DiscoveryHarness) -> None:
    harness.discovery.mark_reachable(2, False)
    harness.tell(Broker(2, 0, "two", 9092, ZERO_UUID))
    assert not harness.discovery.is_reachable(2)


def test_a_leader_that_metadata_names_is_passed_on_if_its_address_is_known(harness: DiscoveryHarness) -> None:
    harness.needs_leader = True
    harness.time.pass_ms(SEARCH_INTERVAL_MS)
    harness.events.clear()
    harness.answer(ApiKey.METADATA, metadata(leader_id=3))
    assert harness.events == [], "nobody can fetch from a leader without address"
    harness.answer(ApiKey.METADATA, metadata(leader_id=-1))
    assert harness.events == []
    harness.answer(ApiKey.METADATA, metadata(leader_id=2, cluster_id=THEIRS))
    assert harness.events == []
    harness.answer(ApiKey.METADATA, metadata(leader_id=2))
    assert harness.events == [LeaderReported(2, 6)]


def voter(node_id: int, host: str) -> Voter:
    return Voter(ReplicaKey(node_id, DIRECTORY), (Endpoint("CONTROLLER", host, 9092),))


def test_newest_voter_record_wins_over_older_ones_and_over_the_configuration(
    harness: DiscoveryHarness,
) -> None:
    """Three voters moved, one after the other: of their addresses only the newest record has all."""
    for offset, host in ((1, "two"), (50, "moved"), (90, "moved-again")):
        harness.discovery.learn_voters([voter(2, host)], offset)
    assert harness.discovery.address_of(2) == Address("moved-again", 9092, 0, DIRECTORY, 90)
    harness.discovery.learn_voters([voter(2, "moved")], 50)
    assert harness.discovery.address_of(2) == Address("moved-again", 9092, 0, DIRECTORY, 90)


def test_what_a_node_states_itself_wins_over_every_record(harness: DiscoveryHarness) -> None:
    harness.tell(Broker(2, 1, "stated", 9092, DIRECTORY))
    harness.discovery.learn_voters([voter(2, "recorded")], 90)
    assert harness.discovery.endpoint_of(2) == Endpoint("CONTROLLER", "stated", 9092)


@pytest.mark.parametrize("boot_timestamp", [0, 9])
def test_new_leader_is_where_it_announces_itself(harness: DiscoveryHarness, boot_timestamp: int) -> None:
    """Whether it says since when or, as a stock leader, does not: records and earlier statements are older."""
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


def test_announcement_gives_way_to_what_is_newer(harness: DiscoveryHarness) -> None:
    """To a later voter record that of a stock leader, to a later start that of any other."""
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


def test_a_truncated_voter_record_gives_way_to_the_one_before_it(harness: DiscoveryHarness) -> None:
    harness.discovery.learn_voters([voter(2, "committed")], 50)
    harness.discovery.learn_voters([voter(2, "truncated")], 90)
    harness.discovery.log_truncated(80)
    harness.discovery.learn_voters([voter(2, "committed")], 50)
    assert harness.discovery.endpoint_of(2) == Endpoint("CONTROLLER", "committed", 9092)


def test_configured_addresses_are_asked_although_the_log_names_others(harness: DiscoveryHarness) -> None:
    """All nodes were moved while they were down: the records are old, the properties are new."""
    harness.discovery.learn_voters([voter(2, "before"), voter(3, "before-3")], 50)
    harness.calls.clear()
    harness.needs_leader = True
    harness.time.pass_ms(30_000)
    assert {("two", 9092), ("before", 9092), ("seed", 1)} <= set(harness.asked(ApiKey.DISCOVER_BROKERS))


def test_a_voter_that_moved_is_asked_where_the_newest_record_says_whatever_it_stated_before(
    harness: DiscoveryHarness,
) -> None:
    harness.tell(Broker(2, 1, "stated", 9092, DIRECTORY))
    harness.discovery.learn_voters([voter(2, "moved")], 90)
    harness.calls.clear()
    harness.needs_leader = True
    harness.time.pass_ms(30_000)
    assert {("stated", 9092), ("moved", 9092)} <= set(harness.asked(ApiKey.DISCOVER_BROKERS))


def test_removed_voters_are_forgotten_unless_they_state_where_they_are(harness: DiscoveryHarness) -> None:
    harness.discovery.learn_voters([voter(2, "two"), voter(3, "three"), voter(4, "four")], 50)
    harness.tell(Broker(4, 9, "four", 9092, DIRECTORY))
    harness.voter_ids = (2,)
    harness.discovery.learn_voters([voter(2, "two")], 60)
    assert [node_id for node_id, _ in harness.discovery.addresses()] == [1, 2, 4]


def test_voters_without_address_are_counted_among_the_voters_of_now(harness: DiscoveryHarness) -> None:
    assert harness.discovery.missing_voters() == [3]
    harness.voter_ids = (1, 2)
    assert harness.discovery.missing_voters() == []
    harness.voter_ids = (1, 2, 7)
    assert harness.discovery.missing_voters() == [7]


def test_an_observer_that_does_not_answer_is_not_told_to_clients(harness: DiscoveryHarness) -> None:
    harness.settle()
    harness.discovery.learn(9, Address("nine", 9092, 4))
    harness.needs_leader = True
    while ("nine", 9092) not in harness.asked(ApiKey.DISCOVER_BROKERS):
        harness.time.pass_ms(SEARCH_INTERVAL_MS)
    call = next(call for host, _, call in harness.calls if host == "nine")
    call.on_failure(Failure("refused", refused=True))
    assert not harness.discovery.is_reachable(9)
    call.on_response(DiscoverBrokersResponse(0, "", []))
    assert harness.discovery.is_reachable(9)


def test_a_node_that_does_not_answer_is_no_trouble(harness: DiscoveryHarness) -> None:
    harness.calls[0][2].on_failure(Failure("gone"))
    harness.time.pass_ms(1000)
    assert len(harness.calls) > 1


def test_stops_asking(harness: DiscoveryHarness) -> None:
    harness.discovery.stop()
    harness.calls.clear()
    harness.time.pass_ms(10 * STABLE_INTERVAL_MS)
    assert harness.calls == []


def metadata(leader_id: int, cluster_id: str = OURS) -> MetadataResponse:
    partition = MetadataResponsePartition(0, 0, leader_id, 6)
    other = MetadataResponseTopic(0, "another", partitions=[MetadataResponsePartition(0, 0, 1, 9)])
    topic = MetadataResponseTopic(0, METADATA_TOPIC, partitions=[partition])
    return MetadataResponse(0, [], cluster_id, leader_id, [other, topic])


def request_of(message: DiscoverBrokersRequest) -> Request:
    return Request(ApiKey.DISCOVER_BROKERS, 0, 1, None, message, b"", 0)


def test_a_new_leader_is_told_until_it_answers() -> None:
    """It may not be reached when it becomes known, and makes no voter of a node whose address it does not know."""
    harness = settled_harness()
    harness.discovery.announce_to(2)
    assert harness.asked(ApiKey.DISCOVER_BROKERS) == [("two", 9092)]
    harness.fail()
    for asked in (2, 3):
        harness.time.pass_ms(SEARCH_INTERVAL_MS)
        assert harness.asked(ApiKey.DISCOVER_BROKERS) == [("two", 9092)] * asked
    harness.tell()
    harness.time.pass_ms(3 * SEARCH_INTERVAL_MS)
    assert len(harness.asked(ApiKey.DISCOVER_BROKERS)) == 3


def test_whose_address_comes_later_is_told_then() -> None:
    harness = settled_harness()
    harness.discovery.announce_to(4)
    assert harness.asked(ApiKey.DISCOVER_BROKERS) == []
    harness.discovery.learn(4, Address("four", 9092, 1))
    harness.time.pass_ms(SEARCH_INTERVAL_MS)
    assert harness.asked(ApiKey.DISCOVER_BROKERS) == [("four", 9092)]


def test_an_answer_of_another_node_says_nothing_of_the_leader() -> None:
    harness = settled_harness()
    harness.discovery.announce_to(2)
    (_, _, introduction), answer = harness.calls[0], DiscoverBrokersResponse(0, "", [])
    harness.discovery.learn(5, Address("five", 9092, 1))
    harness.time.pass_ms(2 * STABLE_INTERVAL_MS)
    others = [
        call for host, _, call in harness.calls if host != "two" and call.api_key == ApiKey.DISCOVER_BROKERS
    ]
    assert others
    for call in others:
        call.on_response(answer)
    harness.calls.clear()
    harness.time.pass_ms(SEARCH_INTERVAL_MS)
    assert ("two", 9092) in harness.asked(ApiKey.DISCOVER_BROKERS)
    introduction.on_response(answer)
    harness.calls.clear()
    harness.time.pass_ms(5 * SEARCH_INTERVAL_MS)
    assert ("two", 9092) not in harness.asked(ApiKey.DISCOVER_BROKERS)


def settled_harness() -> DiscoveryHarness:
    """Just after it has asked somebody as it does every half minute."""
    harness = DiscoveryHarness()
    harness.settle()
    harness.time.pass_ms(2 * SEARCH_INTERVAL_MS)
    harness.calls.clear()
    return harness
