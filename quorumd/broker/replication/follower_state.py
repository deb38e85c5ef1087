"""The state of a follower, which its leader derives from its fetches."""

from __future__ import annotations

from typing import Final

UNKNOWN_OFFSET: Final = -1
"""Stands for the offsets of a follower that has not fetched in the leader's epoch yet."""
NO_BROKER_EPOCH: Final = -1
NEVER: Final = float("-inf")


class FollowerState:
    """A follower's offsets and broker epoch in its last fetch, and the time when it was last caught up."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "fetched_ms",
        "leader_end_then",
        "start_offset",
    )

    def __init__(self, caught_up_ms: float = NEVER) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.start_offset = UNKNOWN_OFFSET
        self.broker_epoch = NO_BROKER_EPOCH
        self.caught_up_ms = caught_up_ms
        """The latest time at which the follower's log is known to have had everything in the leader's log."""
        self.fetched_ms = NEVER
        self.leader_end_then = UNKNOWN_OFFSET
        """The leader's log end offset at the last fetch."""

    def __repr__(self) -> str:
        return f"<follower at {self.end_offset}, broker epoch {self.broker_epoch}>"

    def update(
        self, end_offset: int, start_offset: int, broker_epoch: int, leader_end: int, now_ms: float
    ) -> None:
        """Record a fetch at `end_offset` while the leader's log ended at `leader_end`."""
        if end_offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif self.fetched_ms > NEVER and end_offset >= self.leader_end_then:
            # The follower has everything that the leader had at the previous fetch.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset, self.start_offset, self.broker_epoch = end_offset, start_offset, broker_epoch
        self.fetched_ms, self.leader_end_then = max(self.fetched_ms, now_ms), leader_end

    def is_caught_up(self, leader_end: int, now_ms: float, max_lag_ms: float) -> bool:
        """Whether the follower is caught up now, or was within `max_lag_ms` (`replica.lag.time.max.ms`)."""
        return self.end_offset == leader_end or now_ms - self.caught_up_ms <= max_lag_ms
