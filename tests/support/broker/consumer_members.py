"""Members of consumer groups (KIP-848), as clients see them."""

from __future__ import annotations

from quorumd.broker.coordinator.consumer_group import EMPTY_ASSIGNMENT, JOINING, Assignment
from quorumd.broker.coordinator.consumer_membership import Heartbeat, HeartbeatResult
from quorumd.errors import ErrorCode
from tests.support.broker.classic_members import Groups

OVER = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class ConsumerClient:
    """A client that owns the assignment of its last heartbeat, and revokes partitions immediately."""

    def __init__(
        self,
        groups: Groups,
        name: str,
        *topics: str,
        instance_id: str | None = None,
        assignor: str | None = None,
        regex: str | None = None,
    ) -> None:
        self.groups = groups
        self.member_id = name
        self.topics = topics
        self.instance_id = instance_id
        self.assignor = assignor
        self.regex = regex
        self.epoch = JOINING
        self.owned: Assignment = EMPTY_ASSIGNMENT
        self.is_waiting = False
        self.result = HeartbeatResult(ErrorCode.NONE)

    def beat(self, **changes: object) -> HeartbeatResult:
        """Send a heartbeat with all fields, and adopt the assignment in the response."""
        heartbeat = Heartbeat(
            "g",
            self.member_id,
            self.epoch,
            self.instance_id,
            None,
            30_000,
            self.topics,
            self.regex,
            self.assignor,
            self.owned,
        )._replace(**changes)  # type: ignore[arg-type]  # fields of Heartbeat
        self.is_waiting = True
        self.groups.run(lambda machine, times: machine.consumer_heartbeat(heartbeat, times, self._on_result))
        return self.result

    def _on_result(self, result: HeartbeatResult) -> None:
        assert self.is_waiting, "two responses to one request"
        self.is_waiting = False
        self.result = result
        if result.error in OVER:
            self.epoch, self.owned = JOINING, EMPTY_ASSIGNMENT
        if result.error is ErrorCode.NONE:
            self.epoch = result.epoch
            if result.assignment is not None:
                self.owned = result.assignment

    def numbers(self) -> list[int]:
        """Return the partition numbers that the client owns, sorted."""
        return sorted(number for _, number in self.owned)
