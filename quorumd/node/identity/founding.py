"""Decides which nodes may found a quorum, and explains why a node is not part of one.

KIP-595 draft: the configured voters are used only if there is no quorum state and no existing quorum can be
discovered. A blank directory (no record, no snapshot, no epoch) therefore starts without a vote. Its node queries all
other configured voters, all `bootstrap.servers` and all nodes that it discovers, and then:

    * With `quorum.voters` alone it may found a quorum once every queried node has reported that it is blank too, or
      that it may found a quorum that includes exactly this directory. A node that does not respond may hold the only
      copy of an existing quorum.
    * If formatted with --standalone or --initial-controllers, it may found a quorum after FORMATTED_WAIT_MS even if
      other nodes do not respond.
    * If any node has records or an epoch, or belongs to another cluster, it founds no quorum and waits to join one.
    * If formatted with --no-initial-controllers, it never founds a quorum.

Founders are identified by directory id. Every founder names the same set and saves it with its first vote. A
replacement disk is therefore not the founder whose disk it replaced, and two different sets cannot both found a
quorum: a vote for the first leader requires that the voter itself is permitted, and a replacement disk is permitted
only after it has queried all nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from quorumd.ids import Endpoint, ReplicaKey
from quorumd.node.identity.cluster_identity import ClusterIdentity
from quorumd.node.settings import NodeSettings
from quorumd.protocol.messages.discover_brokers_response import DiscoverBrokersResponse, Founder
from quorumd.raft.engine import RaftEngine
from quorumd.raft.voters import Voter, VoterSet, majority

REPORT_TTL_MS = 3000.0
"""Age at which a peer's report expires."""
FORMATTED_WAIT_MS = 1000.0
"""How long a node that was formatted to found a quorum waits for peers that do not respond."""
HostPort = tuple[str, int]


class Standing(IntEnum):
    """The relation of a node to a quorum."""

    UNKNOWN = 0
    BLANK = 1
    """The node has no record, snapshot or epoch."""
    FOUNDER = 2
    MEMBER = 3


class PeerReport(NamedTuple):
    """The standing that a node reported."""

    node: Voter
    standing: Standing
    founders: VoterSet
    same_cluster: bool
    received_ms: float

    @property
    def key(self) -> ReplicaKey:
        return self.node.key


class FoundingDecision(NamedTuple):
    """The founders that are permitted now, or why none are."""

    founders: VoterSet | None
    obstacle: str | None


class Founding:
    """Decides from the reports of peers whether this node may found a quorum."""

    def __init__(
        self,
        own: ReplicaKey,
        settings: NodeSettings,
        engine: RaftEngine,
        identity: ClusterIdentity,
        formatted: VoterSet | None,
    ) -> None:
        self._own = Voter(own, ())
        self._listener_name = settings.advertised.name
        self._configured = sorted(settings.bootstrap_voters)
        seeds = [(host, port) for voter, host, port in settings.voter_addresses if voter != own.id]
        self._targets: tuple[HostPort, ...] = (*settings.bootstrap_servers, *seeds)
        self._engine = engine
        self._identity = identity
        self.formatted = formatted
        """The founders that `format` or an earlier process saved, None if undecided; empty if this directory never
        founds a quorum."""
        self._reports: dict[HostPort, PeerReport] = {}
        self._unreachable: dict[HostPort, float] = {}
        self._started_ms = -1.0
        self._logged: str | None = None
        self._observed: tuple[str | None, float] = (None, 0.0)

    def start(self, own: Endpoint) -> None:
        """Record this node's endpoint once the listener is bound."""
        self._own = Voter(self._own.key, (own,))
        self._targets = tuple(
            dict.fromkeys([*self._targets, *((host, port) for _, host, port in self.seeds())])
        )

    def seeds(self) -> list[tuple[int, str, int]]:
        """Id, host and port of the other founders."""
        founders = self.formatted.voters if self.formatted is not None else ()
        others = [voter for voter in founders if voter.key != self._own.key]
        return [(voter.key.id, e.host, e.port) for voter in others for e in voter.endpoints[:1]]

    @property
    def is_open(self) -> bool:
        """Whether this directory has no record of a quorum."""
        return not self._engine.voters.current.ids and self._engine.log_is_empty

    @property
    def founders_to_save(self) -> VoterSet | None:
        """The founders to save with the vote until there are committed voters."""
        return self._engine.founders if self._engine.founders.voters else self.formatted

    @property
    def standing(self) -> Standing:
        """The standing that this node reports."""
        if self._engine.voters.current.ids or not self._engine.log_is_empty:
            return Standing.MEMBER
        if self.founders.voters:
            return Standing.FOUNDER
        return Standing.BLANK if self._engine.epoch == 0 else Standing.MEMBER

    @property
    def voter_ids(self) -> Sequence[int]:
        """The voters of the local log; before the log has any, the founders, or else the configured voters."""
        return self._engine.voters.current.ids or self.founders.ids or self._configured

    @property
    def founders(self) -> VoterSet:
        """The founders that the engine was given, or else `formatted`."""
        return self._engine.founders if self._engine.founders.voters else self.formatted or VoterSet()

    @property
    def needs_reports(self) -> bool:
        """Whether reports of all other nodes are needed before this node may found a quorum."""
        return self.is_open and not self._engine.founders.voters

    def needs_report_from(self, host_port: HostPort, node_id: int, now: float) -> bool:
        """Whether to query a configured voter from which a request has just arrived."""
        awaited = self.needs_reports and node_id in self._configured
        return awaited and host_port not in self._current_reports(now)

    def record_report(self, host_port: HostPort, response: DiscoverBrokersResponse, now: float) -> None:
        """Record the standing that the node at `host_port` reported."""
        self._unreachable.pop(host_port, None)
        self._reports[host_port] = PeerReport(
            Voter(
                ReplicaKey(response.replica_id, response.replica_directory_id),
                (Endpoint(self._listener_name, *host_port),),
            ),
            Standing(response.standing) if response.standing in set(Standing) else Standing.UNKNOWN,
            VoterSet(
                tuple(
                    Voter(
                        ReplicaKey(f.voter_id, f.directory_id),
                        (Endpoint(self._listener_name, f.host, f.port),),
                    )
                    for f in response.founders
                )
            ),
            self._identity.accepts(response.cluster_id),
            now,
        )

    def fill_report(self, response: DiscoverBrokersResponse) -> None:
        """Set this node's standing and founders in a response."""
        response.replica_id, response.replica_directory_id = self._own.key
        response.standing = self.standing
        if response.standing == Standing.FOUNDER:
            response.founders = [
                Founder(v.key.id, v.key.directory_id, e.host, e.port)
                for v in self.founders.voters
                for e in v.endpoints[:1]
            ]

    def on_unreachable(self, host_port: HostPort, now: float) -> None:
        """Record that no node responds at `host_port`."""
        self._reports.pop(host_port, None)
        self._unreachable[host_port] = now

    def permitted_founders(self, now: float) -> VoterSet | None:
        """The founders, this node included, as soon as they are permitted to found a quorum; else None."""
        if not self.needs_reports or self._engine.leader_id >= 0:
            return None
        return self._decide(now).founders

    def obstacle(self, now: float) -> str | None:
        """Why this node is not part of a quorum, and the remedy; None if it is part of one, or about to be."""
        engine = self._engine
        has_leader = engine.leader_id >= 0 and not engine.should_probe_leader(now)
        if (replaced := replaced_disk_obstacle(engine, self._own.key, has_leader=has_leader)) is not None:
            return replaced
        if has_leader:
            return None
        if self.is_open:
            return None if engine.founders.voters else self._decide(now).obstacle
        return self._missing_majority(now) if engine.is_voter else None

    def new_obstacle(self, now: float, stable_ms: float = 1500.0) -> str | None:
        """An obstacle that has lasted for `stable_ms` and was not returned before."""
        obstacle = self.obstacle(now)
        if obstacle != self._observed[0]:
            self._observed = (obstacle, now)
        if obstacle == self._logged or (obstacle is not None and now - self._observed[1] < stable_ms):
            return None
        self._logged = obstacle
        return obstacle

    def _decide(self, now: float) -> FoundingDecision:
        if self._started_ms < 0:
            self._started_ms = now
        own, reports = self._own.key, self._current_reports(now)
        if self.formatted is not None and not self.formatted.voters:
            return FoundingDecision(
                None, f"node {own.id} was formatted with --no-initial-controllers and {JOIN_HINT}"
            )
        for host_port, report in sorted(reports.items()):
            if (conflict := self._conflict(report)) is not None:
                return FoundingDecision(
                    None,
                    f"node {own.id} founds no quorum: node {report.key.id} at {format_host_port(host_port)} "
                    f"{conflict}",
                )
        if self.formatted is not None:
            unreachable = [p for p in self._targets if p not in reports and p not in self._unreachable]
            if unreachable and now - self._started_ms < FORMATTED_WAIT_MS:
                return FoundingDecision(
                    None,
                    f"node {own.id} waits for {', '.join(map(format_host_port, unreachable))}, which may have an "
                    "existing quorum",
                )
            return FoundingDecision(self.formatted.with_voter(self._own), None)
        return self._decide_from_configuration(reports)

    def _decide_from_configuration(self, reports: Mapping[HostPort, PeerReport]) -> FoundingDecision:
        own, by_id = self._own.key, {report.key.id: report for report in reports.values()}
        if own.id not in self._configured:
            return FoundingDecision(None, f"node {own.id} is not in quorum.voters and {JOIN_HINT}")
        missing = [f"node {n}" for n in self._configured if n != own.id and n not in by_id]
        missing += [format_host_port(host_port) for host_port in self._targets if host_port not in reports]
        if missing:
            return FoundingDecision(
                None,
                f"node {own.id} founds no quorum while it has no response from {', '.join(dict.fromkeys(missing))}, "
                "which may belong to an existing one: start all of them; if that is impossible and no copy of an "
                "existing quorum is left, format with --standalone or --initial-controllers",
            )
        others = [p for p in self._targets if p in reports and reports[p].key != own]
        if self._configured == [own.id] and not others:
            return FoundingDecision(
                None,
                f"node {own.id} has an empty log and knows no other node that could belong to a quorum: format with "
                "--standalone to found a new cluster, or set bootstrap.servers to join the existing one",
            )
        offered = {
            voter_keys(r.founders): r.founders for r in by_id.values() if r.standing is Standing.FOUNDER
        }
        if len(offered) > 1:
            return FoundingDecision(
                None, f"node {own.id} waits: its peers report two different sets of founders"
            )
        if offered:
            return FoundingDecision(next(iter(offered.values())), None)
        if not self._engine.is_blank:
            return FoundingDecision(
                None, f"node {own.id} has epoch {self._engine.epoch} of an existing quorum and {JOIN_HINT}"
            )
        voters = [self._own if n == own.id else by_id[n].node for n in self._configured]
        return FoundingDecision(VoterSet(tuple(voters)), None)

    def _conflict(self, report: PeerReport) -> str | None:
        """Why a peer's report forbids this node to found a quorum; None if it does not."""
        if report.key == self._own.key:
            return None
        if report.key.id == self._own.key.id:
            return "has the same node id but another log directory: give each node its own node id"
        if not report.same_cluster:
            return f"belongs to another cluster than this directory was formatted for; this node {JOIN_HINT}"
        if report.standing is Standing.MEMBER:
            return f"is part of an existing quorum; this node {JOIN_HINT}"
        if report.standing is Standing.UNKNOWN:
            return (
                "does not report whether it is part of an existing quorum: upgrade it to this version, or add the "
                "principal of this node to its super.users"
            )
        if report.standing is Standing.FOUNDER:
            own_entry = report.founders.by_id(self._own.key.id)
            expected = self.formatted
            if own_entry is None or own_entry.key != self._own.key:
                return f"founds a quorum without this directory; this node {JOIN_HINT}"
            if expected is not None and voter_keys(expected) != voter_keys(report.founders):
                return "founds a quorum of other voters: format all nodes with the same --initial-controllers"
        return None

    def _missing_majority(self, now: float) -> str | None:
        """Why the voters of the local log cannot elect a leader, as far as this node knows."""
        own, voters = self._own.key, self._engine.voters.current.voters
        reports = {report.key.id: report for report in self._current_reports(now).values()}
        unreachable: list[ReplicaKey] = []
        replaced: list[ReplicaKey] = []
        for voter in voters:
            report = reports.get(voter.key.id)
            if voter.key.id == own.id or (report is not None and voter.key.matches(report.key)):
                continue
            (unreachable if report is None else replaced).append(voter.key)
        if len(voters) - len(unreachable) - len(replaced) >= majority(len(voters)):
            return None
        causes = [f"node {key.id} does not respond" for key in unreachable]
        causes += [
            f"node {key.id} has another log directory than its vote (directory id {key.directory_id})"
            for key in replaced
        ]
        return (
            f"{len(voters)} voters cannot elect a leader: {', '.join(causes)}; start the nodes that do not respond "
            "and restore the log directories that were replaced: a majority of the voters must run with their own"
        )

    def _current_reports(self, now: float) -> dict[HostPort, PeerReport]:
        return {p: r for p, r in self._reports.items() if now - r.received_ms <= REPORT_TTL_MS}


JOIN_HINT = "waits for an existing quorum, which it looks for at bootstrap.servers and quorum.voters"


def replaced_disk_obstacle(engine: RaftEngine, own: ReplicaKey, *, has_leader: bool) -> str | None:
    """Why a node whose disk was replaced does not vote, and the remedy; None for any other node.

    Without a leader the remedy begins with an election, in which a majority of the recorded voters must take part.
    """
    voters = engine.voters.current
    voter = voters.by_id(own.id)
    if voter is None or voter.key.matches(own):
        return None
    ids = ",".join(map(str, voters.ids))
    election = (
        f"this needs a leader first: start {majority(len(voters.ids))} of the voters {ids} with their old "
        "log directories, a majority, so that they elect one; then "
    )
    return (
        f"node {own.id} does not vote: the voter with its id has directory id {voter.key.directory_id}, "
        f"this directory has {own.directory_id}, so its disk was replaced; {'' if has_leader else election}"
        f"run `quorumd quorum alter --voters {ids} --wait` to give the vote to this directory"
    )


def voter_keys(voters: VoterSet) -> frozenset[ReplicaKey]:
    """The ids and directory ids of voters, without their endpoints."""
    return frozenset(voter.key for voter in voters.voters)


def format_host_port(host_port: HostPort) -> str:
    return f"{host_port[0]}:{host_port[1]}"
