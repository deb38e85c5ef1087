"""Bounds the memory of members of classic groups: any client that may join a group chooses its metadata.

The metadata of a member stays in memory for as long as the member is in its group, up to the session timeout that it
chose itself, and must fit into the record of the group.
"""

from __future__ import annotations

from typing import Final

from quorumd.broker.coordinator.classic_group import ClassicGroup, ClassicMember, GroupState

MAX_MEMBERS: Final = 5_000
"""Members of a group, whatever `group.max.size` is: a generation begins, and its record is written, in one iteration
of the event loop. Only the responses to the members are sent in slices."""
MAX_MEMBER_BYTES: Final = 1024 * 1024
"""Bytes of the protocols of one member; the record of a group takes no more either."""
LARGE_MEMBER_BYTES: Final = 16 * 1024
MAX_LARGE_BYTES: Final = 32 * 1024 * 1024


class LargeMembers:
    """The members whose protocols have more than LARGE_MEMBER_BYTES, in all groups of a broker."""

    def __init__(self, max_bytes: int = MAX_LARGE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._members: dict[ClassicMember, tuple[ClassicGroup, int]] = {}

    def has_room(self, size: int) -> bool:
        """Whether a member of this size may join, or replace its protocols."""
        if size <= LARGE_MEMBER_BYTES:
            return True
        self._members = {
            member: held
            for member, held in self._members.items()
            if held[0].state is not GroupState.DEAD and held[0].members.get(member.id) is member
        }
        return size + sum(held for _, held in self._members.values()) <= self._max_bytes

    def record(self, group: ClassicGroup, member: ClassicMember, size: int) -> None:
        """Record the size of a member that has joined or replaced its protocols."""
        if size > LARGE_MEMBER_BYTES:
            self._members[member] = (group, size)
        else:
            self._members.pop(member, None)
