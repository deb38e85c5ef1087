"""What is provably committed, from copies of the log and the files beside them.

A node's high-watermark checkpoint and its snapshots say so: they are written of what is committed only. Without them
the logs do, by Raft's commit rule (Raft paper 5.4.2): what a majority of the voters holds identically, as long as
the leader of its last epoch wrote a record of that epoch among it, and as no copy shows a leader of a later epoch
who did not have it. Every epoch begins with a record of its leader, so that the first condition is kept by whatever
the majority has of the epoch; the second one tells a record that was copied to a majority only in a later epoch
(figure 8), and can still go, from one that is there to stay. A voter whose folder is not given cannot be asked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from quorumd.pipeline.audit.copies import Copy
from quorumd.pipeline.audit.matching import Difference


class Pair(NamedTuple):
    """Two copies, compared."""

    one: int
    two: int
    start: int
    end: int
    """Offsets that both have."""
    differences: tuple[Difference, ...]

    @property
    def parts_at(self) -> int:
        """Where they part for good; the end of the shorter one if they do not, and 0 where there is nothing to
        compare. Damage in between is none of that. What is below `start` is the same if something above is (log
        matching)."""
        if self.start >= self.end:
            return 0
        if self.differences and self.differences[-1].reaches_end:
            return self.differences[-1].offset_lo
        return self.end


class Claim(NamedTuple):
    """What `node` holds below `offset` is committed. The leader who knew that was of `epoch`, or a later one."""

    offset: int
    node: int
    epoch: int
    why: str


class Commitment:
    """What is committed, and in whose version."""

    def __init__(self, claims: Sequence[Claim], pairs: Mapping[tuple[int, int], Pair]) -> None:
        self.claims = sorted(claims, reverse=True)
        self._pairs = pairs

    @property
    def up_to(self) -> int:
        """The end of what is committed, 0 where nothing shows it."""
        return self.claims[0].offset if self.claims else 0

    def claim_for(self, node: int, offset: int) -> Claim | None:
        """Why what this node holds at an offset is committed; None if nothing says so."""
        for claim in self.claims:
            if claim.offset <= offset:
                break
            if claim.node == node or self._pairs[claim.node, node].parts_at > offset:
                return claim
        return None


def majority_claim(
    copies: Mapping[int, Copy], voters: Sequence[int], pairs: Mapping[tuple[int, int], Pair]
) -> Claim | None:
    """What a majority of the voters holds; None if fewer of them are given."""
    given = [copies[voter] for voter in voters if voter in copies]
    needed = len(voters) // 2 + 1
    if len(given) < needed:
        return None
    claims = []
    for copy in given:
        reached = sorted((_common(copy, other, pairs) for other in given), reverse=True)
        offset = _below_rivals(copy, copies.values(), reached[needed - 1], pairs)
        claims.append(Claim(offset, copy.node, epoch_below(copy, offset), "held by a majority of the voters"))
    return max(claims)


def _common(copy: Copy, other: Copy, pairs: Mapping[tuple[int, int], Pair]) -> int:
    return copy.end_offset if copy is other else pairs[copy.node, other.node].parts_at


def _below_rivals(
    copy: Copy, others: Collection[Copy], offset: int, pairs: Mapping[tuple[int, int], Pair]
) -> int:
    """A copy of a later epoch that parts from this one had a leader who had all that was committed: less is."""
    changed = True
    while changed:
        changed = False
        for other in others:
            if other is copy:
                continue
            parts_at = pairs[copy.node, other.node].parts_at
            if parts_at < min(offset, other.end_offset) and other.last_epoch > epoch_below(copy, offset):
                offset, changed = parts_at, True
    return offset


def epoch_below(copy: Copy, offset: int) -> int:
    """The epoch of the last batch below an offset; -1 for none."""
    return max((mark.epoch for mark in copy.epoch_starts if mark.offset < offset), default=-1)
