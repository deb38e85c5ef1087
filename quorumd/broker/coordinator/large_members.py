"""Bounds the memory of members of groups: any client that may join a group chooses its metadata.

The protocols or the subscription of a member stay in memory for as long as the member is in its group, up to the
session timeout, which a classic member chooses itself, and must fit into a record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from quorumd.broker.coordinator.consumer_group import ConsumerMember
from quorumd.errors import ErrorCode

MAX_MEMBERS: Final = 5_000
"""Members of a group, whatever `group.max.size` is: a generation begins, and its record is written, in one iteration
of the event loop. Only the responses to the members are sent in slices."""
MAX_MEMBER_BYTES: Final = 1024 * 1024
"""Bytes of the protocols or the subscription of one member; the record of a group takes no more either."""
LARGE_MEMBER_BYTES: Final = 16 * 1024
MAX_LARGE_BYTES: Final = 32 * 1024 * 1024
NAME_BYTES: Final = 64
"""Memory of the name of a topic besides its characters."""


def subscription_bytes(member: ConsumerMember) -> int:
    """Return the bytes of what the client of a member of a consumer group has chosen, approximately."""
    protocols = () if member.classic is None else member.classic.protocols
    sizes = [len(name) + len(metadata) for name, metadata in protocols]
    sizes += [NAME_BYTES + len(topic) for topic in member.topics]
    return len(member.regex) + len(member.rack_id or "") + sum(sizes)


class LargeMembers:
    """The members with more than LARGE_MEMBER_BYTES, in all groups of a broker."""

    def __init__(self, max_bytes: int = MAX_LARGE_BYTES) -> None:
        self.max_bytes = max_bytes
        self.of_coordinators: list[MemberSizes] = []
        """Those that have had large members and are not closed."""

    def total_bytes(self) -> int:
        """Return the bytes of all large members."""
        return sum(each.total_bytes() for each in self.of_coordinators)


class MemberSizes:
    """The large members of the groups of one coordinator. `is_member(group id, member id)` says who still is one."""

    def __init__(self, broker: LargeMembers, is_member: Callable[[str, str], bool]) -> None:
        self._broker = broker
        self._is_member = is_member
        self._bytes: dict[tuple[str, str], int] = {}

    def check(self, size: int) -> ErrorCode:
        """Return the error for a member of this size that joins or replaces its protocols or subscription."""
        if size > MAX_MEMBER_BYTES:
            return ErrorCode.MESSAGE_TOO_LARGE
        if size > LARGE_MEMBER_BYTES and size + self._broker.total_bytes() > self._broker.max_bytes:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NONE

    def record(self, group_id: str, member_id: str, size: int) -> None:
        """Record the size of a member that has joined, or replaced its protocols or subscription."""
        if size > LARGE_MEMBER_BYTES:
            if self not in self._broker.of_coordinators:
                self._broker.of_coordinators.append(self)
            self._bytes[group_id, member_id] = size
        else:
            self._bytes.pop((group_id, member_id), None)

    def total_bytes(self) -> int:
        """Forget those who are no longer members; return the bytes of the others."""
        self._bytes = {key: size for key, size in self._bytes.items() if self._is_member(*key)}
        return sum(self._bytes.values())

    def close(self) -> None:
        """Count no member of this coordinator any longer."""
        if self in self._broker.of_coordinators:
            self._broker.of_coordinators.remove(self)
