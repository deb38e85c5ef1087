"""What may leave the node, and when: nothing overtakes the quorum-state or the log records it depends on.

Two kinds of durability, in the order the engine's contract fixes: no message leaves while an earlier save of the
quorum-state is not durable; what must also wait for the log waits for the log end offset of its own moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from quorumd.raft.effects import Respond, Send
from quorumd.raft.messages import FetchRequest

Message = Send | Respond
ALREADY_DURABLE = -1


class DurabilityGate:
    """Holds messages back until the disk has what they promise.

    `deliver` is called with each message that may leave, `prepare` with each that waits for a flush: what can be
    done for it meanwhile. `durable_offset` is the log end offset on the disk.
    """

    def __init__(
        self,
        deliver: Callable[[Message], None],
        durable_offset: int,
        prepare: Callable[[Message], None] = lambda message: None,
    ) -> None:
        self.durable_offset = durable_offset
        self._deliver = deliver
        self._prepare = prepare
        self._saves_started = 0
        self._saves_completed = 0
        self._waiting_for_save: deque[tuple[int, int, Sequence[Message]]] = deque()
        self._waiting_for_flush: list[tuple[int, Sequence[Message]]] = []

    @property
    def is_saving(self) -> bool:
        """Whether a save of the quorum-state is under way."""
        return self._saves_started > self._saves_completed

    def save_started(self) -> None:
        self._saves_started += 1

    def save_completed(self) -> None:
        """The oldest save under way is durable."""
        self._saves_completed += 1
        while self._waiting_for_save and self._waiting_for_save[0][0] <= self._saves_completed:
            _, offset, messages = self._waiting_for_save.popleft()
            self._release_after_save(offset, messages)

    def flushed(self, end_offset: int) -> None:
        """The log is durable up to `end_offset`, or further where that is known already."""
        self.durable_offset = max(self.durable_offset, end_offset)
        ready = [entry for entry in self._waiting_for_flush if entry[0] <= end_offset]
        if ready:
            self._waiting_for_flush = [entry for entry in self._waiting_for_flush if entry[0] > end_offset]
            for _, messages in ready:
                for message in messages:
                    self._deliver(message)

    def truncated(self, end_offset: int) -> list[Send]:
        """The log was cut: what comes to stand above `end_offset` is not durable yet.

        Returns the fetches that were held back for records which are gone now: they must not leave, because
        a fetch acknowledges all below its offset.
        """
        self.durable_offset = min(self.durable_offset, end_offset)
        withdrawn: list[Send] = []
        kept: list[tuple[int, Sequence[Message]]] = []
        for needed_offset, messages in self._waiting_for_flush:
            if needed_offset <= end_offset:
                kept.append((needed_offset, messages))
                continue
            fetches = [m for m in messages if isinstance(m, Send) and isinstance(m.request, FetchRequest)]
            withdrawn += fetches
            kept.append((end_offset, [m for m in messages if m not in fetches]))
        self._waiting_for_flush = kept
        return withdrawn

    def restarted(self, start_offset: int) -> list[Send]:
        """The log begins anew at `start_offset`, and all before it is durable as a snapshot.

        Returns the fetches that were held back: they say what the old log had.
        """
        withdrawn = self.truncated(ALREADY_DURABLE)
        self.flushed(start_offset)
        return withdrawn

    def release_after(self, messages: Sequence[Message], needed_offset: int = ALREADY_DURABLE) -> None:
        """Let messages leave once all saves begun so far and the log up to `needed_offset` are durable."""
        if not messages:
            return
        if self.is_saving:
            self._waiting_for_save.append((self._saves_started, needed_offset, messages))
        else:
            self._release_after_save(needed_offset, messages)

    def _release_after_save(self, needed_offset: int, messages: Sequence[Message]) -> None:
        if needed_offset <= self.durable_offset:
            for message in messages:
                self._deliver(message)
        else:
            self._waiting_for_flush.append((needed_offset, messages))
            for message in messages:
                self._prepare(message)
