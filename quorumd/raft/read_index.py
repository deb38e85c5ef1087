"""Read-index rounds (Raft thesis 6.4): a leader confirms that it still leads before it serves a read.

A read is confirmed by fetches from a majority that were sent after the read arrived; a fetch that was already in
flight does not count (hole 30). There are two proofs that a fetch was sent after a read:

    by round    Every fetch response has the current round, and a fetch has the round of the response that it
                follows. A fetch with round r was therefore sent after the leader started round r for the read.
    by offset   Kafka's Fetch has no round, and its arrival after a read proves nothing, since it may have been
                delayed. But a fetch at an offset above E was sent after the record at E was appended, and therefore
                after a read that arrived when the log ended at E. If a read waits for such a fetch and nothing is
                appended, the engine requests a record (`Effects.record_needed`).

Reads share a round only while no response has carried it and the log end is unchanged, so that both proofs hold for
all of them. Only a leader confirms reads; other replicas reject them, and their node forwards the request or responds
that it does not lead.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from quorumd.raft.effects import ReadReady, ReadToken


@dataclass(slots=True)
class WaitingRead:
    token: ReadToken
    round: int
    log_end: int
    """The log end offset when the read arrived: a fetch above it was sent later."""
    offset: int
    """The high watermark when the read arrived, -1 if unknown."""


@dataclass(slots=True)
class ReadRounds:
    """Reads that wait until a majority has fetched since they arrived (Raft paper section 8)."""

    current: int = 0
    _stamped: bool = True
    """Whether a response has had the current round, so that the next read needs a new one."""
    waiting: list[WaitingRead] = field(default_factory=list)

    def add(self, token: ReadToken, high_watermark: int, log_end: int) -> None:
        """Add a read to the current round if no response has had that and the log end is unchanged, else to a new
        round."""
        if self._stamped or (self.waiting and self.waiting[-1].log_end != log_end):
            self.current += 1
            self._stamped = False
        self.waiting.append(WaitingRead(token, self.current, log_end, high_watermark))

    def stamp_response(self) -> int:
        """Return the current round for a response, which ends the time in which reads can join it."""
        self._stamped = True
        return self.current

    def has_newer_round(self, fetched_round: int) -> bool:
        """Whether a read waits for a round above `fetched_round`."""
        return bool(self.waiting) and fetched_round < self.waiting[-1].round

    def round_confirmed_by(self, fetch_offset: int) -> int:
        """The newest round that a fetch at `fetch_offset` proves by its offset; 0 for none."""
        for read in reversed(self.waiting):
            if read.log_end < fetch_offset:
                return read.round
        return 0

    def needs_record(self, log_end: int) -> bool:
        """Whether nothing was appended since the newest read arrived, so that no fetch can confirm it by offset."""
        return bool(self.waiting) and self.waiting[-1].log_end >= log_end

    def confirm(self, confirmed_round: int, high_watermark: int) -> list[ReadReady]:
        """Remove and return the reads up to `confirmed_round`; none while the high watermark is unknown.

        A read that arrived while it was unknown must wait until everything below it is applied.
        """
        if high_watermark < 0:
            return []
        ready: list[ReadReady] = []
        for read in self.waiting:
            if read.round > confirmed_round:
                break
            ready.append(ReadReady(read.token, read.offset if read.offset >= 0 else high_watermark))
        del self.waiting[: len(ready)]
        return ready

    def drain(self) -> list[ReadToken]:
        """Remove all reads and return their tokens, when this node stops leading."""
        tokens = [read.token for read in self.waiting]
        self.waiting.clear()
        return tokens
