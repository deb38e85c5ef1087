"""Holds outgoing messages until the quorum state and the log records that they depend on are durable.

The engine's contract has two conditions: no message leaves before earlier saves of the quorum state are durable, and
a message that also depends on the log waits until the log is durable up to its end offset at that time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from quorumd.raft.effects import Respond, Send
from quorumd.raft.messages import FetchRequest

Message = Send | Respond
ALREADY_DURABLE = -1


class DurabilityGate:
    """Holds messages until what they acknowledge is durable.

    `deliver` is called with each message that may leave, `prepare` with each message that begins to wait for a flush,
    to encode it meanwhile. The log is durable below `durable_offset`.
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
        """Whether a save of the quorum state is in progress."""
        return self._saves_started > self._saves_completed

    def save_started(self) -> None:
        self._saves_started += 1

    def save_completed(self) -> None:
        """Release messages that waited for the oldest save in progress, which is durable now."""
        self._saves_completed += 1
        while self._waiting_for_save and self._waiting_for_save[0][0] <= self._saves_completed:
            _, offset, messages = self._waiting_for_save.popleft()
            self._release_after_save(offset, messages)

    def flushed(self, end_offset: int) -> None:
        """Release messages that waited for the log to be durable up to `end_offset`."""
        self.durable_offset = max(self.durable_offset, end_offset)
        ready = [entry for entry in self._waiting_for_flush if entry[0] <= end_offset]
        if ready:
            self._waiting_for_flush = [entry for entry in self._waiting_for_flush if entry[0] > end_offset]
            for _, messages in ready:
                for message in messages:
                    self._deliver(message)

    def truncated(self, end_offset: int) -> list[Send]:
        """Lower the durable offset after a truncation to `end_offset`.

        Returns the fetches that waited for truncated records: they must not leave, because a fetch acknowledges all
        records below its offset.
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
        """Reset to a log that starts at `start_offset`, below which everything is durable as a snapshot.

        Returns the fetches that were waiting: they acknowledge the old log.
        """
        withdrawn = self.truncated(ALREADY_DURABLE)
        self.flushed(start_offset)
        return withdrawn

    def release_after(self, messages: Sequence[Message], needed_offset: int = ALREADY_DURABLE) -> None:
        """Deliver messages once all saves started so far and the log up to `needed_offset` are durable."""
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
