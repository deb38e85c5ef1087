"""Determines the provably committed offsets from copies of the log and their sidecar files.

High-watermark checkpoints and snapshots prove commitment, since they cover only committed records. Without them,
Raft's commit rule applies (Raft paper 5.4.2): records are committed if a majority of the voters holds them
identically, if they include a record of the last leader's own epoch, and if no copy shows a leader of a later epoch
without them. The first record of every epoch is its leader's, so any record of the epoch meets the second condition.
The third one excludes records that reached a majority only in a later epoch and can still be lost (figure 8).
Voters whose directories are not given do not count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from quorumd.pipeline.audit.copies import Copy
from quorumd.pipeline.audit.matching import Difference


class Pair(NamedTuple):
    """The result of comparing two copies."""

    one: int
    two: int
    start: int
    end: int
    """The offsets [start, end) are in both copies."""
    differences: tuple[Difference, ...]

    @property
    def parts_at(self) -> int:
        """The offset from which the copies differ up to the end.

        It is the end of the shorter copy if they agree there, and 0 if they have no common offsets. Damage in between
        does not count. Records below `start` are equal if any record above is (log matching).
        """
        if self.start >= self.end:
            return 0
        if self.differences and self.differences[-1].reaches_end:
            return self.differences[-1].offset_lo
        return self.end


class Claim(NamedTuple):
    """The records of `node` below `offset` are committed, as known to a leader of `epoch` or later."""

    offset: int
    node: int
    epoch: int
    why: str


class Commitment:
    """The committed offsets, and the copies that hold their committed version."""

    def __init__(self, claims: Sequence[Claim], pairs: Mapping[tuple[int, int], Pair]) -> None:
        self.claims = sorted(claims, reverse=True)
        self._pairs = pairs

    @property
    def up_to(self) -> int:
        """The end offset of the committed records; 0 if none is provably committed."""
        return self.claims[0].offset if self.claims else 0

    def claim_for(self, node: int, offset: int) -> Claim | None:
        """Return the proof that the record of a node at an offset is committed; None if there is no proof."""
        for claim in self.claims:
            if claim.offset <= offset:
                break
            if claim.node == node or self._pairs[claim.node, node].parts_at > offset:
                return claim
        return None


def majority_claim(
    copies: Mapping[int, Copy], voters: Sequence[int], pairs: Mapping[tuple[int, int], Pair]
) -> Claim | None:
    """Return the claim for the records that a majority of the voters holds.

    None if the copies are not those of a majority of the voters.
    """
    given = [copies[voter] for voter in voters if voter in copies]
    needed = len(voters) // 2 + 1
    if len(given) < needed:
        return None
    claims = []
    for copy in given:
        reached = sorted((_common(copy, other, pairs) for other in given), reverse=True)
        offset = _below_rivals(copy, copies.values(), reached[needed - 1], pairs)
        why = f"copies of a majority of the voters, node {copy.node} among them"
        claims.append(Claim(offset, copy.node, epoch_below(copy, offset), why))
    return max(claims)


def _common(copy: Copy, other: Copy, pairs: Mapping[tuple[int, int], Pair]) -> int:
    return copy.end_offset if copy is other else pairs[copy.node, other.node].parts_at


def _below_rivals(
    copy: Copy, others: Collection[Copy], offset: int, pairs: Mapping[tuple[int, int], Pair]
) -> int:
    """Lower `offset` to where copies of later epochs diverge, since a leader has all committed records."""
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
    """Return the epoch of the last batch below an offset; -1 if there is none."""
    return max((mark.epoch for mark in copy.epoch_starts if mark.offset < offset), default=-1)
