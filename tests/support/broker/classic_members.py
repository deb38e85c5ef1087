"""Members of classic groups, as clients see them."""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.broker.coordinator.classic_group import JoinResult, SyncResult
from quorumd.broker.coordinator.classic_membership import Join, Sync
from quorumd.broker.coordinator.groups import GroupClient, GroupCoordinator
from quorumd.errors import ErrorCode
from tests.support.broker.coordinator_shards import CoordinatorShard

Groups = CoordinatorShard[GroupCoordinator]


class ClassicClient:
    """One client. `joined` and `synced` are its last responses, None while it waits."""

    def __init__(
        self,
        groups: Groups,
        group: str = "g",
        instance_id: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b""),),
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 20_000,
        needs_member_id: bool = False,
        name: str = "client",
    ) -> None:
        self.groups = groups
        self.group = group
        self.instance_id = instance_id
        self.protocols = protocols
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.needs_member_id = needs_member_id
        self.name = name
        self.member_id = ""
        self.generation = -1
        self.joined: JoinResult | None = None
        self.synced: SyncResult | None = None

    def join(self, can_skip_assignment: bool = True) -> JoinResult | None:
        """Send JoinGroup; return the result, None if the coordinator delays it."""
        self.joined = None
        join = Join(
            self.group,
            self.member_id,
            self.instance_id,
            self.name,
            "/127.0.0.1",
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            "consumer",
            self.protocols,
            self.needs_member_id,
            can_skip_assignment,
        )
        self.groups.run(lambda machine, times: machine.join(join, times, self._on_joined))
        return self.joined

    def _on_joined(self, result: JoinResult) -> None:
        assert self.joined is None, "two responses to one request"
        self.joined = result
        if result.error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id = result.member_id
            self.generation = result.generation

    def sync(self, assignments: dict[str, bytes] | None = None) -> SyncResult | None:
        """Send SyncGroup; return the result, None if the coordinator delays it."""
        self.synced = None
        sync = Sync(
            self.group, self.generation, self.member_id, self.instance_id, "consumer", None, assignments or {}
        )
        self.groups.run(lambda machine, times: machine.sync(sync, times, self._on_synced))
        return self.synced

    def _on_synced(self, result: SyncResult) -> None:
        assert self.synced is None, "two responses to one request"
        self.synced = result

    def heartbeat(self) -> ErrorCode:
        """Send Heartbeat."""
        member = self.group_client()
        error = self.groups.run(lambda machine, times: machine.heartbeat(member, times))
        assert isinstance(error, ErrorCode)
        return error

    def leave(self) -> ErrorCode:
        """Send LeaveGroup."""
        leaving = [(self.member_id, self.instance_id)]
        (error,) = leave(self.groups, self.group, leaving)
        return error

    def group_client(self) -> GroupClient:
        """Return the identity with which the client commits."""
        return GroupClient(self.group, self.member_id, self.instance_id, self.generation)

    @property
    def leads(self) -> bool:
        """Whether the client is the leader of its generation."""
        return self.joined is not None and self.joined.leader == self.member_id


def leave(groups: Groups, group: str, leaving: list[tuple[str, str | None]]) -> list[ErrorCode]:
    """Send LeaveGroup, and return the error of each member."""
    responses: list[list[ErrorCode]] = []

    def respond(failure: ErrorCode, results: Sequence[tuple[str, ErrorCode]]) -> None:
        responses.append([failure or error for _, error in results])

    groups.run(lambda machine, times: machine.leave(group, leaving, times, respond))
    (errors,) = responses
    return errors


def stable_group(groups: Groups, count: int = 2, **options: object) -> list[ClassicClient]:
    """Return the members of a stable group, the leader first; each is assigned its own member id."""
    clients = [ClassicClient(groups, **options) for _ in range(count)]  # type: ignore[arg-type]  # options of a client
    clients[0].join()
    for client in clients[1:]:
        client.join()
        for earlier in clients[: clients.index(client)]:
            earlier.join()
    assign(clients)
    return clients


def assign(clients: list[ClassicClient]) -> None:
    """Send SyncGroup for every client of one generation; the leader assigns each member its own member id."""
    for client in clients:
        client.sync({each.member_id: each.member_id.encode() for each in clients} if client.leads else None)
