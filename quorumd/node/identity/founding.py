"""Who may found a quorum, and why a node is not part of one.

KIP-595 draft: the voters of the configuration are used only if there is no quorum state and no existing quorum can be
discovered. So a blank folder (no record, no snapshot, no epoch) has no vote at first. It asks all other configured
voters, all of `bootstrap.servers` and all nodes it hears of, and then

    * with `quorum.voters` alone it may found a quorum once all of them answered, each that it is blank too, or that
      it may found one with exactly this folder. Somebody silent may have the only copy of an existing quorum.
    * formatted with --standalone or --initial-controllers it may do so although others are silent, after a while.
    * somebody with records or an epoch, or of another cluster, always wins: this node joins that quorum.
    * formatted with --no-initial-controllers it never founds one.

Founders are named by directory id, by each of them in the same set, and saved with the first vote. So a disk that
replaces another one is not the founder before it, and two sets that differ cannot both found: a vote for a first
leader needs the permission of the voter as well, and a disk that replaced another asked everybody after that.
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
"""What a peer has said of itself for longer counts no more."""
FORMATTED_WAIT_MS = 1000.0
"""How long those who were formatted to found a quorum wait for peers that do not answer."""
HostPort = tuple[str, int]


class Standing(IntEnum):
    """What a node has of a quorum."""

    UNKNOWN = 0
    BLANK = 1
    FOUNDER = 2
    MEMBER = 3


class PeerReport(NamedTuple):
    """What the node at some place said of itself."""

    node: Voter
    standing: Standing
    founders: VoterSet
    same_cluster: bool
    received_ms: float

    @property
    def key(self) -> ReplicaKey:
        return self.node.key


class FoundingDecision(NamedTuple):
    """Who may found a quorum now, or why not."""

    founders: VoterSet | None
    obstacle: str | None


class Founding:
    """What the peers of one node said, and what follows. `formatted`: the founders that `format` or an earlier
    process saved; an empty set for a folder that never founds."""

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
        self._reports: dict[HostPort, PeerReport] = {}
        self._unreachable: dict[HostPort, float] = {}
        self._started_ms = -1.0
        self._logged: str | None = None
        self._observed: tuple[str | None, float] = (None, 0.0)

    def start(self, own: Endpoint) -> None:
        """The listener is bound: this is where others reach this node."""
        self._own = Voter(self._own.key, (own,))
        self._targets = tuple(
            dict.fromkeys([*self._targets, *((host, port) for _, host, port in self.seeds())])
        )

    def seeds(self) -> list[tuple[int, str, int]]:
        """Where the other founders are."""
        founders = self.formatted.voters if self.formatted is not None else ()
        others = [voter for voter in founders if voter.key != self._own.key]
        return [(voter.key.id, e.host, e.port) for voter in others for e in voter.endpoints[:1]]

    @property
    def is_open(self) -> bool:
        """Whether this folder has no record of a quorum."""
        return not self._engine.voters.current.ids and self._engine.log_is_empty

    @property
    def founders_to_save(self) -> VoterSet | None:
        """What goes with the vote until committed voters do."""
        return self._engine.founders if self._engine.founders.voters else self.formatted

    @property
    def standing(self) -> Standing:
        """What this node has of a quorum."""
        if self._engine.voters.current.ids or not self._engine.log_is_empty:
            return Standing.MEMBER
        if self.founders.voters:
            return Standing.FOUNDER
        return Standing.BLANK if self._engine.epoch == 0 else Standing.MEMBER

    @property
    def voter_ids(self) -> Sequence[int]:
        """The voters of the own log; those who may found a quorum, or would, while it names none."""
        return self._engine.voters.current.ids or self.founders.ids or self._configured

    @property
    def founders(self) -> VoterSet:
        return self._engine.founders if self._engine.founders.voters else self.formatted or VoterSet()

    @property
    def needs_reports(self) -> bool:
        """Whether everybody has to be asked."""
        return self.is_open and not self._engine.founders.voters

    def needs_report_from(self, host_port: HostPort, node_id: int, now: float) -> bool:
        """Whether a configured voter that has just shown itself is to be asked at once."""
        awaited = self.needs_reports and node_id in self._configured
        return awaited and host_port not in self._current_reports(now)

    def answered(self, host_port: HostPort, response: DiscoverBrokersResponse, now: float) -> None:
        """The node at `place` said what it has of a quorum."""
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

    def state(self, response: DiscoverBrokersResponse) -> None:
        """Put into an answer what this node has of a quorum."""
        response.replica_id, response.replica_directory_id = self._own.key
        response.standing = self.standing
        if response.standing == Standing.FOUNDER:
            response.founders = [
                Founder(v.key.id, v.key.directory_id, e.host, e.port)
                for v in self.founders.voters
                for e in v.endpoints[:1]
            ]

    def on_unreachable(self, host_port: HostPort, now: float) -> None:
        """Nobody answered at `place`."""
        self._reports.pop(host_port, None)
        self._unreachable[host_port] = now

    def permitted_founders(self, now: float) -> VoterSet | None:
        """Who may found a quorum, this node among them, when it has just become clear; else None."""
        if not self.needs_reports or self._engine.leader_id >= 0:
            return None
        return self._decide(now).founders

    def obstacle(self, now: float) -> str | None:
        """Why this node is not part of a quorum and what helps; None if it is, or is about to be."""
        engine = self._engine
        if (replaced := membership_obstacle(engine, self._own.key)) is not None:
            return replaced
        if engine.leader_id >= 0 and not engine.should_probe_leader(now):
            return None
        if self.is_open:
            return None if engine.founders.voters else self._decide(now).obstacle
        return self._missing_majority(now) if engine.is_voter else None

    def new_obstacle(self, now: float, stable_ms: float = 1500.0) -> str | None:
        """An obstacle that has lasted for a moment and was not told before."""
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
                    f"node {own.id} asks {', '.join(map(format_host_port, unreachable))} for an existing quorum",
                )
            return FoundingDecision(self.formatted.with_voter(self._own), None)
        return self._decide_from_configuration(reports)

    def _decide_from_configuration(self, reports: Mapping[HostPort, PeerReport]) -> FoundingDecision:
        own, answered = self._own.key, {report.key.id: report for report in reports.values()}
        if own.id not in self._configured:
            return FoundingDecision(None, f"node {own.id} is none of quorum.voters and {JOIN_HINT}")
        missing = [f"node {n}" for n in self._configured if n != own.id and n not in answered]
        missing += [format_host_port(host_port) for host_port in self._targets if host_port not in reports]
        if missing:
            return FoundingDecision(
                None,
                f"node {own.id} founds no quorum while {' and '.join(dict.fromkeys(missing))} "
                "may have an existing one and does not answer: start all of them; if that cannot be, format with "
                "--standalone or --initial-controllers where no copy of an existing quorum is left",
            )
        others = [p for p in self._targets if p in reports and reports[p].key != own]
        if self._configured == [own.id] and not others:
            return FoundingDecision(
                None,
                f"node {own.id} is blank and has nobody to ask for an existing quorum: format with --standalone to "
                "found a new cluster, or set bootstrap.servers to join the existing one",
            )
        offered = {
            voter_keys(r.founders): r.founders for r in answered.values() if r.standing is Standing.FOUNDER
        }
        if len(offered) > 1:
            return FoundingDecision(None, f"node {own.id} waits: its peers found two different quorums")
        if offered:
            return FoundingDecision(next(iter(offered.values())), None)
        if not self._engine.is_blank:
            return FoundingDecision(
                None, f"node {own.id} has epoch {self._engine.epoch} of an existing quorum and {JOIN_HINT}"
            )
        voters = [self._own if n == own.id else answered[n].node for n in self._configured]
        return FoundingDecision(VoterSet(tuple(voters)), None)

    def _conflict(self, report: PeerReport) -> str | None:
        """Why what a peer has rules out a founding; None if it does not."""
        if report.key == self._own.key:
            return None
        if report.key.id == self._own.key.id:
            return "has this node's id and another data folder: give each node an id of its own"
        if not report.same_cluster:
            return (
                f"belongs to another cluster, and this folder was formatted for another one; it {JOIN_HINT}"
            )
        if report.standing is Standing.MEMBER:
            return f"is of an existing quorum; this node {JOIN_HINT}"
        if report.standing is Standing.UNKNOWN:
            return "does not say whether it is of an existing quorum: run this version there too"
        if report.standing is Standing.FOUNDER:
            own_entry = report.founders.by_id(self._own.key.id)
            expected = self.formatted
            if own_entry is None or own_entry.key != self._own.key:
                return f"founds a quorum without this folder; this node {JOIN_HINT}"
            if expected is not None and voter_keys(expected) != voter_keys(report.founders):
                return (
                    "founds a quorum of other voters: format all of them with the same --initial-controllers"
                )
        return None

    def _missing_majority(self, now: float) -> str | None:
        """Why the voters of the own log cannot elect a leader, as far as this one can see."""
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
        causes = [f"node {key.id} does not answer" for key in unreachable]
        causes += [f"node {key.id} is blank, its vote was on the disk {key.directory_id}" for key in replaced]
        return (
            f"no leader can be elected by {len(voters)} voters: {', '.join(causes)}; start those that do not answer, "
            "and bring back the data folders that were replaced: a majority of the voters must have theirs"
        )

    def _current_reports(self, now: float) -> dict[HostPort, PeerReport]:
        return {p: r for p, r in self._reports.items() if now - r.received_ms <= REPORT_TTL_MS}


JOIN_HINT = (
    "waits for an existing quorum: it joins the one that it finds at bootstrap.servers or quorum.voters"
)


def membership_obstacle(engine: RaftEngine, own: ReplicaKey) -> str | None:
    """Why a node whose disk was replaced does not vote, and what helps; None for any other node."""
    voter = engine.voters.current.by_id(own.id)
    if voter is None or voter.key.matches(own):
        return None
    return (
        f"node {own.id} does not vote: the voter of its id has directory id {voter.key.directory_id}, "
        f"this folder has {own.directory_id}, so its disk was replaced; run `quorumd quorum alter --voters "
        f"{','.join(map(str, engine.voters.current.ids))} --wait` to give the vote to this folder"
    )


def voter_keys(voters: VoterSet) -> frozenset[ReplicaKey]:
    """Who the voters are, wherever they are reached."""
    return frozenset(voter.key for voter in voters.voters)


def format_host_port(host_port: HostPort) -> str:
    return f"{host_port[0]}:{host_port[1]}"
