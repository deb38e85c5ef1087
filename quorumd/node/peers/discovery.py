"""Gossip of addresses by DiscoverBrokers, and the search for a leader by Metadata (KIP-595 draft 4.5, 6.1, 6.3).

All known nodes are queried at the start, then one per round: at short intervals while addresses or the leader are
missing, at long ones otherwise.

Any client may announce any address. It is used once the node there has responded with the announced node id and
directory id and with this cluster's id. Lists of addresses are used only from voters and from configured or recorded
addresses (hole 45).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from quorumd.errors import ErrorCode
from quorumd.ids import METADATA_TOPIC, NO_NODE, ZERO_UUID, Endpoint, ReplicaKey
from quorumd.node.basics import NodeBasics, QuorumParts
from quorumd.node.identity.founding import Founding
from quorumd.node.peers.address_book import Address, AddressBook, is_same_place
from quorumd.node.peers.connection import Call, Failure
from quorumd.ports import Entropy, Timer
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.discover_brokers_request import DiscoverBrokersRequest, Listener
from quorumd.protocol.messages.discover_brokers_response import Broker, DiscoverBrokersResponse
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.messages.metadata_response import MetadataResponse
from quorumd.protocol.routes import Route, Session
from quorumd.protocol.wire import Message
from quorumd.raft.events import FoundingPermitted, LeaderReported, PeerDiscovered
from quorumd.raft.messages import BeginEpochRequest
from quorumd.raft.voters import Voter

logger = logging.getLogger("quorumd.discovery")

FAST_INTERVAL_MS = 100.0
SEARCH_INTERVAL_MS = 1000.0
STABLE_INTERVAL_MS = 30_000.0
FAST_ROUNDS = 20
MAX_UNVERIFIED = 64
"""Announced addresses of nodes other than voters that are verified at the same time; nodes repeat announcements."""
MAX_UNVERIFIED_PER_VOTER = 4
"""Announced addresses of one voter that are verified at once, so that unknown nodes do not delay voters that
moved. One more is allowed for an announcement from the announced host itself, which other hosts cannot forge."""
MAX_AHEAD_MS = 3_600_000
"""A boot timestamp further in the future is not recorded as is: no other announcement could replace it. Nor is such
a node refused: its timestamps never decrease, so they stay ahead even after its clock has been set back."""


class Discovery:
    """Finds the addresses of nodes, and steps the engine with each new address (PeerDiscovered) and each reported
    leader.

    `call(host, port, call)` sends to any address. The interval between rounds depends on `missing_voters()`, and on
    whether the engine needs another leader.
    """

    def __init__(
        self,
        node: NodeBasics,
        quorum: QuorumParts,
        founding: Founding,
        entropy: Entropy,
        call: Callable[[str, int, Call], None],
    ) -> None:
        settings = node.settings
        self._own = quorum.own
        self._listener_name = settings.controller_listener_name
        self._bootstrap_servers = list(settings.bootstrap_servers)
        self._voter_addresses = [seed for seed in settings.voter_addresses if seed[0] != quorum.own.id]
        self._clock = node.clock
        self._entropy = entropy
        self._engine = quorum.engine
        self._identity = quorum.identity
        self._call = call
        self._step = quorum.step
        self._request_timeout_ms = settings.request_timeout_ms
        self._book = AddressBook()
        self._own_address = Address("", 0)
        self._own_endpoints: Sequence[Endpoint] = ()
        self._founding = founding
        self._seeds: list[tuple[str, int]] = []
        self._recorded_addresses: list[tuple[str, int]] = []
        self._unverified: dict[tuple[int, str, int], Address] = {}
        """Announced addresses whose nodes have not responded yet, by node id, host and port."""
        self._has_reported_ahead = False
        self._rounds = 0
        self._stable_until = -inf
        self._unannounced_leader = NO_NODE
        """The leader until it has responded; after that it knows this node's address."""
        self._timer: Timer | None = None

    def start(self, own_address: Address, own_endpoints: Sequence[Endpoint] = ()) -> None:
        """Start querying.

        The other nodes of `quorum.voters` and the other founders are always queried, even if the log has other
        addresses, but enter the address book only while they are voters.
        """
        self._own_address = own_address
        self._own_endpoints = own_endpoints
        seeds = self._voter_addresses + self._founding.seeds()
        self._seeds = [(host, port) for _, host, port in seeds]
        self.learn(self._own.id, own_address)
        for node_id, host, port in seeds:
            if node_id in self._founding.voter_ids:
                self.learn(node_id, Address(host, port))
        self._poll()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def own_id(self) -> int:
        return self._own.id

    @property
    def own_boot_timestamp(self) -> int:
        """Unix ms of this node's start."""
        return self._own_address.boot_timestamp

    def addresses(self) -> list[tuple[int, Address]]:
        """All known nodes in the order of their ids, including this one."""
        return [(node_id, self._book.require(node_id)) for node_id in self._book.node_ids()]

    def address_of(self, node_id: int) -> Address | None:
        return self._book.get(node_id)

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        """A node's endpoint, for responses."""
        address = self._book.get(node_id)
        return Endpoint(self._listener_name, address.host, address.port) if address else None

    def is_reachable(self, node_id: int) -> bool:
        return self._book.is_reachable(node_id)

    def mark_reachable(self, node_id: int, reachable: bool) -> None:
        self._book.mark_reachable(node_id, reachable)

    def learn(self, node_id: int, address: Address) -> None:
        """Record an address if it is newer than the known one. If its boot timestamp is far in the future, record it
        only once the node there has responded."""
        if node_id == self._own.id and address != self._own_address:
            return
        if not self._is_ahead(node_id, address):
            self._record(node_id, address)
        elif self._begin_verification(node_id, address, ""):
            self._send_discovery(address.host, address.port)

    def _record(self, node_id: int, address: Address) -> None:
        if self._book.learn(node_id, address, node_id in self._founding.voter_ids):
            key = ReplicaKey(node_id, address.directory_id)
            self._step(PeerDiscovered(key, Endpoint(self._listener_name, address.host, address.port)))

    def _is_ahead(self, node_id: int, address: Address) -> bool:
        """Whether another node announces a start in the future; logged once per start of this node."""
        is_ahead = address.boot_timestamp > self._clock.wall_ms() + MAX_AHEAD_MS and node_id != self._own.id
        if is_ahead and not self._has_reported_ahead:
            self._has_reported_ahead = True
            logger.warning(
                "the start time of node %d is in the future; check the clocks of both nodes. Its address is recorded "
                "once it has responded",
                node_id,
            )
        return is_ahead

    def _dated(self, node_id: int, announced: Address) -> Address:
        """The announced address, with a boot timestamp that a later start exceeds (hole 45).

        A timestamp in the future becomes the earliest one that replaces the known address. If the address itself is
        known, it is returned and not verified again, so that two nodes that are ahead of each other stop verifying.
        """
        if not self._is_ahead(node_id, announced):
            return announced
        known = self._book.get(node_id)
        if known is None:
            return replace(announced, boot_timestamp=self._clock.wall_ms())
        if known.boot_timestamp > 0 and self._book.is_reachable(node_id) and is_same_place(known, announced):
            return known
        return replace(announced, boot_timestamp=max(self._clock.wall_ms(), known.boot_timestamp + 1))

    def learn_voters(self, voters: Sequence[Voter], offset: int) -> None:
        """Record the addresses in the newest voter record, at `offset`, unless newer ones are known.

        Former voters keep only an address that they announced themselves. Recorded addresses are queried even if a
        node announced another one: it may have moved since.
        """
        self._recorded_addresses = [
            (e.host, e.port) for v in voters if v.key.id != self._own.id for e in self._usable(v.endpoints)
        ]
        if voters:
            self._book.retain([self._own.id, *(voter.key.id for voter in voters)])
        for voter in voters:
            for endpoint in self._usable(voter.endpoints):
                address = Address(endpoint.host, endpoint.port, 0, voter.key.directory_id, offset)
                self.learn(voter.key.id, address)

    def learn_leader(self, announced: BeginEpochRequest, end_offset: int) -> None:
        """Record the address that a new leader announced.

        A stock leader sends no boot timestamp: its address is newer than every voter record in the local log, which
        ends at `end_offset`.
        """
        leader_id, boot_timestamp = announced.leader_id, announced.boot_timestamp
        known = self._book.get(leader_id)
        directory_id = known.directory_id if known is not None else ZERO_UUID
        recorded_at = -1 if boot_timestamp else end_offset
        for endpoint in self._usable(announced.endpoints)[:1]:
            self.learn(
                leader_id, Address(endpoint.host, endpoint.port, boot_timestamp, directory_id, recorded_at)
            )

    def _usable(self, endpoints: Sequence[Endpoint]) -> Sequence[Endpoint]:
        """The endpoints of the listener by which this node connects to others; all if none has that name."""
        return [each for each in endpoints if each.name == self._listener_name] or endpoints

    def log_truncated(self, end_offset: int) -> None:
        """Handle the truncation of the log to `end_offset`."""
        self._book.truncate_to(end_offset)

    def announce_to(self, node_id: int) -> None:
        """Announce this node's address to a new leader, and repeat that until it responds.

        The leader may have started after this node's first announcements. It adds only voters whose address it knows.
        """
        self._unannounced_leader = node_id if node_id != self._own.id else NO_NODE
        if self._rounds > 0:
            self._announce()

    def _announce(self) -> None:
        address = self._book.get(self._unannounced_leader)
        if address is not None:
            self._send_discovery(address.host, address.port)

    def missing_voters(self) -> list[int]:
        """Voters without a known address (KIP-595: number-unknown-voter-connections)."""
        return [node_id for node_id in self._founding.voter_ids if self._book.get(node_id) is None]

    def routes(self) -> Iterable[Route]:
        return (Route(DiscoverBrokersRequest, self.discover_brokers),)

    def discover_brokers(self, session: Session, request: Request[DiscoverBrokersRequest]) -> None:
        """Handle DiscoverBrokers. A request announces the address of its sender, unless that is an admin client."""
        message = request.message
        sender = self._sender(message)
        announced = Address(sender.host, sender.port, message.boot_timestamp, message.replica_directory_id)
        brokers = [
            Broker(node_id, address.boot_timestamp, address.host, address.port, address.directory_id)
            for node_id, address in self.addresses()
        ]
        response = DiscoverBrokersResponse(0, self._identity.cluster_id or "", brokers)
        response.listener_name = self._listener_name
        self._founding.fill_report(response)
        session.respond(request, response)
        host_port = (sender.host, sender.port)
        is_unverified = self._begin_verification(message.replica_id, announced, session.origin.host)
        if is_unverified or self._founding.needs_report_from(
            host_port, message.replica_id, self._clock.now_ms()
        ):
            self._send_discovery(*host_port)

    def _begin_verification(self, node_id: int, announced: Address, host: str) -> bool:
        """Begin to verify an address announced from a host, if it is new; returns whether it is."""
        key = (node_id, announced.host, announced.port)
        announced = self._dated(node_id, announced)
        is_new = (
            node_id != self._own.id
            and key not in self._unverified
            and self._has_slot(node_id, announced.host == host)
            and self._book.accepts(node_id, announced, node_id in self._founding.voter_ids)
        )
        if is_new:
            self._unverified[key] = announced
        return is_new

    def _has_slot(self, node_id: int, is_own_host: bool) -> bool:
        """Whether one more announced address of the node may be verified now."""
        voters = self._founding.voter_ids
        if node_id in voters:
            used = sum(1 for each, _, _ in self._unverified if each == node_id)
            return used < MAX_UNVERIFIED_PER_VOTER + is_own_host
        return sum(1 for each, _, _ in self._unverified if each not in voters) < MAX_UNVERIFIED

    def _complete_verification(self, host: str, port: int, response: DiscoverBrokersResponse | None) -> None:
        """Record the announced addresses of the node that responded, None for no response."""
        for key in [key for key in self._unverified if key[1:] == (host, port)]:
            announced = self._unverified.pop(key)
            if (
                response is not None
                and (response.replica_id, response.replica_directory_id) == (key[0], announced.directory_id)
                and self._identity.accepts(response.cluster_id)
            ):
                self._record(key[0], announced)

    def _sender(self, message: DiscoverBrokersRequest) -> Endpoint:
        """The endpoint at which this node reaches the sender of a request."""
        listeners = [Endpoint(each.name, each.host, each.port) for each in message.listeners]
        default = Endpoint(self._listener_name, message.host, message.port)
        return next((each for each in listeners if each.name == self._listener_name), default)

    def _needs_leader(self) -> bool:
        return self._engine.should_probe_leader(self._clock.now_ms())

    def _poll(self) -> None:
        """Query nodes if a round is due. Called more often, since the leader can be lost at any time."""
        now = self._clock.now_ms()
        needs_leader = self._needs_leader()
        is_searching = needs_leader or bool(self.missing_voters())
        if not needs_leader and self._rounds > 0:
            self._announce()
        if is_searching or now >= self._stable_until:
            self._query_targets()
            self._stable_until = now + STABLE_INTERVAL_MS
        self._check_founding()
        is_fast = is_searching and self._rounds < FAST_ROUNDS
        self._timer = self._clock.call_at(
            now + (FAST_INTERVAL_MS if is_fast else SEARCH_INTERVAL_MS), self._poll
        )

    def _query_targets(self) -> None:
        self._rounds += 1
        targets = self._targets()
        if targets:
            chosen = targets[self._entropy.randrange(len(targets))]
            # The first round queries all nodes, so that nodes that recorded this node as unreachable notice its
            # restart; later rounds do if founding needs their reports, or if no leader has been found for long.
            query_all = self._rounds == 1 or self._founding.needs_reports
            query_all = query_all or (self._needs_leader() and self._rounds > FAST_ROUNDS)
            for host, port in targets if query_all else [chosen]:
                self._send_discovery(host, port)
            if self._needs_leader():
                self._request_leader(*chosen)

    def _targets(self) -> list[tuple[str, int]]:
        """All known addresses of other nodes."""
        known = [(a.host, a.port) for node_id, a in self.addresses() if node_id != self._own.id]
        return list(dict.fromkeys(self._bootstrap_servers + self._seeds + self._recorded_addresses + known))

    def _trusted(self) -> list[tuple[str, int]]:
        """The addresses of voters, as configured, recorded and verified."""
        voters = [address for node_id in self._founding.voter_ids if (address := self._book.get(node_id))]
        known = [(address.host, address.port) for address in voters]
        return [*self._bootstrap_servers, *self._seeds, *self._recorded_addresses, *known]

    def _send_discovery(self, host: str, port: int) -> None:
        own = self._own_address
        message = DiscoverBrokersRequest(
            self._own.id, own.boot_timestamp, own.host, own.port, self._own.directory_id
        )
        if len(self._own_endpoints) > 1:
            message.listeners = [Listener(*each) for each in self._own_endpoints]
        deadline = self._clock.now_ms() + self._request_timeout_ms

        def on_response(response: Message) -> None:
            assert isinstance(response, DiscoverBrokersResponse)
            leader = self._book.get(self._unannounced_leader)
            if leader is not None and (leader.host, leader.port) == (host, port):
                self._unannounced_leader = NO_NODE
            self._mark_reachable(host, port, True)
            self._complete_verification(host, port, response)
            if (host, port) in self._trusted():
                self._learn_addresses(response)
            self._founding.record_report((host, port), response, self._clock.now_ms())
            self._check_founding()

        def failed(failure: Failure) -> None:
            self._complete_verification(host, port, None)
            self._mark_reachable(host, port, False)
            self._founding.on_unreachable((host, port), self._clock.now_ms())
            _log_failure(failure)

        self._call(
            host, port, Call(ApiKey.DISCOVER_BROKERS, lambda version: message, on_response, failed, deadline)
        )

    def _check_founding(self) -> None:
        now = self._clock.now_ms()
        founders = self._founding.permitted_founders(now)
        if founders is not None:
            logger.info("found no existing quorum: voters %s may found one", ",".join(map(str, founders.ids)))
            for voter in founders.voters:
                for endpoint in voter.endpoints:
                    self.learn(voter.key.id, Address(endpoint.host, endpoint.port, 0, voter.key.directory_id))
            self._step(FoundingPermitted(founders))
        obstacle = self._founding.new_obstacle(now)
        if obstacle is not None:
            logger.warning("%s", obstacle)

    def _mark_reachable(self, host: str, port: int, reachable: bool) -> None:
        """Record whether observers are reachable, and forget those that were unreachable twice. The engine's requests
        mark voters."""
        for node_id in self._book.nodes_at(host, port):
            if node_id == self._own.id or node_id in self._founding.voter_ids:
                continue
            if reachable or self._book.is_reachable(node_id):
                self._book.mark_reachable(node_id, reachable)
            else:
                self._book.forget(node_id)

    def _learn_addresses(self, response: DiscoverBrokersResponse) -> None:
        is_usable = response.listener_name in ("", self._listener_name)
        if (
            is_usable
            and response.error_code == ErrorCode.NONE
            and self._identity.accepts(response.cluster_id)
        ):
            for broker in response.brokers:
                self.learn(
                    broker.voter_id,
                    Address(broker.host, broker.port, broker.boot_timestamp, broker.directory_id),
                )

    def _request_leader(self, host: str, port: int) -> None:
        message = MetadataRequest([MetadataRequestTopic(name=METADATA_TOPIC)], False)
        deadline = self._clock.now_ms() + self._request_timeout_ms

        def build(version: int) -> MetadataRequest:
            del version
            return message

        trusted = [*self._bootstrap_servers, *self._seeds, *self._recorded_addresses]
        is_trusted = (host, port) in trusted
        on_response = partial(self._on_metadata_response, is_trusted)
        self._call(host, port, Call(ApiKey.METADATA, build, on_response, _log_failure, deadline))

    def _on_metadata_response(self, is_trusted: bool, response: Message) -> None:
        assert isinstance(response, MetadataResponse)
        if not self._identity.accepts(response.cluster_id):
            return
        for topic in response.topics:
            for partition in topic.partitions if topic.name == METADATA_TOPIC else ():
                if partition.leader_id != NO_NODE and self._book.get(partition.leader_id) is not None:
                    self._step(LeaderReported(partition.leader_id, partition.leader_epoch, is_trusted))


def _log_failure(failure: Failure) -> None:
    logger.debug("a node did not respond: %s", failure.reason)
