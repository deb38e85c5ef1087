"""The state of a leader: its followers, its pending proposal, and the writes that wait for acknowledgement."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from quorumd.broker.replication.follower_state import NEVER, UNKNOWN_OFFSET, FollowerState
from quorumd.broker.replication.isr_proposal import IsrProposal
from quorumd.errors import ErrorCode


class PendingProduce:
    """A write with acks=all, complete once the high watermark reaches `end_offset`, its last offset + 1."""

    __slots__ = ("complete", "deadline_ms", "end_offset")

    def __init__(self, end_offset: int, deadline_ms: float, complete: Callable[[ErrorCode], None]) -> None:
        self.end_offset = end_offset
        self.deadline_ms = deadline_ms
        self.complete = complete


class Leadership:
    """The state of a leader in one epoch."""

    __slots__ = ("epoch", "epoch_start", "followers", "pending", "proposal")

    def __init__(self, epoch: int, epoch_start: int) -> None:
        self.epoch = epoch
        self.epoch_start = epoch_start
        """The log end offset when the epoch started. A follower must have everything below it to join the ISR,
        because the high watermark may be lower than on the previous leader."""
        self.followers: dict[int, FollowerState] = {}
        self.proposal: IsrProposal | None = None
        self.pending: list[PendingProduce] = []

    @classmethod
    def begin(
        cls,
        epoch: int,
        epoch_start: int,
        followers: Iterable[int],
        isr: tuple[int, ...],
        now_ms: float,
        previous: Leadership | None,
    ) -> Leadership:
        """Begin an epoch; `previous` is the leadership of the same leader before its re-election.

        The recorded fetches of earlier epochs are kept only for members of the ISR: any other replica may have been
        removed and added again, with an empty log, since it sent them.
        """
        leadership = cls(epoch, epoch_start)
        for replica in followers:
            state = previous.followers.get(replica) if previous is not None else None
            if state is None or replica not in isr:
                state = FollowerState(now_ms if replica in isr else NEVER)
            leadership.followers[replica] = state
        if previous is not None:
            leadership.pending = previous.pending
        return leadership

    def set_followers(self, replicas: Iterable[int]) -> None:
        """Forget removed replicas, and track new ones from now on."""
        self.followers = {replica: self.followers.get(replica) or FollowerState() for replica in replicas}

    def end_offset_of(self, replica: int) -> int:
        """The follower's log end offset, UNKNOWN_OFFSET if it has not fetched."""
        state = self.followers.get(replica)
        return state.end_offset if state is not None else UNKNOWN_OFFSET

    def complete_below(self, high_watermark: int, error: ErrorCode) -> None:
        """Complete the writes that the high watermark has reached."""
        done = [write for write in self.pending if write.end_offset <= high_watermark]
        self.pending = [write for write in self.pending if write.end_offset > high_watermark]
        for write in done:
            write.complete(error)

    def expire(self, now_ms: float) -> None:
        """Time out the writes whose deadline has passed; their records may still be committed later."""
        late = [write for write in self.pending if write.deadline_ms <= now_ms]
        self.pending = [write for write in self.pending if write.deadline_ms > now_ms]
        for write in late:
            write.complete(ErrorCode.REQUEST_TIMED_OUT)

    def fail_pending(self, error: ErrorCode) -> None:
        """Complete every write with an error."""
        failed, self.pending = self.pending, []
        for write in failed:
            write.complete(error)
