"""Read-index rounds (Raft thesis 6.4): a leader that confirms, before it answers a read, that it still leads.

Every answer to a fetch carries the current round, and a fetch carries the round of the answer it follows. So a
fetch with round r was sent after the leader entered round r; a read that opened round r is confirmed by a
majority of such fetches, and never by one that was already on its way when the read came (hole 30).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from quorumd.raft.effects import ReadReady


@dataclass(slots=True)
class WaitingRead:
    token: Any
    round: int
    offset: int
    """The high watermark when it was asked, -1 where that was not known."""


@dataclass(slots=True)
class ReadRounds:
    """Reads that wait until a majority has fetched since they were asked (Raft paper section 8)."""

    current: int = 0
    _carried: bool = True
    """Whether some answer carried the current round already: then the next read needs a new one."""
    waiting: list[WaitingRead] = field(default_factory=list)

    def ask(self, token: Any, high_watermark: int) -> None:
        """Let a read join the round that no answer has carried yet."""
        if self._carried:
            self.current += 1
            self._carried = False
        self.waiting.append(WaitingRead(token, self.current, high_watermark))

    def carry(self) -> int:
        """The round to put into an answer that is leaving."""
        self._carried = True
        return self.current

    def is_awaited(self, fetched_round: int) -> bool:
        """Whether a replica that has come to `fetched_round` should hear of a newer round at once."""
        return bool(self.waiting) and fetched_round < self.waiting[-1].round

    def confirm(self, confirmed_round: int, high_watermark: int) -> list[ReadReady]:
        """Take out the reads that a majority confirmed; none while the high watermark is unknown."""
        if high_watermark < 0:
            return []
        ready: list[ReadReady] = []
        for read in self.waiting:
            if read.round > confirmed_round:
                break
            ready.append(ReadReady(read.token, read.offset if read.offset >= 0 else high_watermark))
        del self.waiting[: len(ready)]
        return ready

    def abandon(self) -> list[Any]:
        """Take out all reads: this node leads no longer."""
        tokens = [read.token for read in self.waiting]
        self.waiting.clear()
        return tokens
