"""Read-index rounds (Raft thesis 6.4): a leader that confirms, before it answers a read, that it still leads.

A read is confirmed by a majority of fetches that were sent after it came; never by one that was already on its way
(hole 30). There are two proofs that a fetch was sent after a read:

    by round    Every answer to a fetch carries the current round, and a fetch carries the round of the answer it
                follows. So a fetch with round r was sent after the leader entered round r, which the read opened.
    by offset   Stock Fetch carries no round, and that it came over a connection after an answer proves nothing: TCP
                may deliver late what was sent before. But a fetch from beyond the record at offset E was sent after
                that record was appended, and so after a read that came when the log ended at E. Where nothing is
                appended while such a voter is waited for, the leader asks for a record (`Effects.record_needed`).

Reads share a round only while no answer has carried it and the log has not grown: then both proofs hold for all of
them. A follower of a stock leader confirms no reads: it forwards them, or says that it does not lead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from quorumd.raft.effects import ReadReady


@dataclass(slots=True)
class WaitingRead:
    token: Any
    round: int
    log_end: int
    """Where the log ended when it was asked: a fetch from beyond was sent after it."""
    offset: int
    """The high watermark when it was asked, -1 where that was not known."""


@dataclass(slots=True)
class ReadRounds:
    """Reads that wait until a majority has fetched since they were asked (Raft paper section 8)."""

    current: int = 0
    _stamped: bool = True
    """Whether some answer carried the current round already: then the next read needs a new one."""
    waiting: list[WaitingRead] = field(default_factory=list)

    def add(self, token: Any, high_watermark: int, log_end: int) -> None:
        """Let a read join the round that no answer has carried yet, if that is of the same end of the log."""
        if self._stamped or (self.waiting and self.waiting[-1].log_end != log_end):
            self.current += 1
            self._stamped = False
        self.waiting.append(WaitingRead(token, self.current, log_end, high_watermark))

    def stamp_response(self) -> int:
        """The round to put into an answer that is leaving."""
        self._stamped = True
        return self.current

    def has_newer_round(self, fetched_round: int) -> bool:
        """Whether a replica that has come to `fetched_round` should hear of a newer round at once."""
        return bool(self.waiting) and fetched_round < self.waiting[-1].round

    def round_confirmed_by(self, fetch_offset: int) -> int:
        """The newest round that a fetch from `fetch_offset` was sent after, whatever it carries; 0 for none."""
        for read in reversed(self.waiting):
            if read.log_end < fetch_offset:
                return read.round
        return 0

    def needs_record(self, log_end: int) -> bool:
        """Whether a read waits that no fetch can prove by its offset, as nothing was appended since it came."""
        return bool(self.waiting) and self.waiting[-1].log_end >= log_end

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

    def drain(self) -> list[Any]:
        """Take out all reads: this node leads no longer."""
        tokens = [read.token for read in self.waiting]
        self.waiting.clear()
        return tokens
