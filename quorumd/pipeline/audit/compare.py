"""Findings from comparing the copies of a log.

Raft allows copies to end differently: an isolated leader has records of its own epoch that no other node has, until
it truncates them. Ends of different epochs are therefore valid if at most one of them is committed. Two versions of
an offset in the same epoch are never valid, since the leader of the epoch wrote it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import combinations

from quorumd.pipeline.audit.commitment import Commitment, Pair
from quorumd.pipeline.audit.copies import Copy
from quorumd.pipeline.audit.findings import Finding, Severity
from quorumd.pipeline.audit.matching import Difference, Reread, differences


def compare_all(copies: Mapping[int, Copy], reread: Reread) -> dict[tuple[int, int], Pair]:
    """Compare all copies pairwise; the result has each pair in both orders."""
    pairs = {}
    for one, two in combinations(copies.values(), 2):
        start, end = max(one.start_offset, two.start_offset), min(one.end_offset, two.end_offset)
        found = tuple(differences(one, two, reread))
        pairs[one.node, two.node] = Pair(one.node, two.node, start, end, found)
        pairs[two.node, one.node] = Pair(
            two.node, one.node, start, end, tuple(each.of_other() for each in found)
        )
    return pairs


def findings_of_pairs(
    copies: Mapping[int, Copy],
    pairs: Mapping[tuple[int, int], Pair],
    commitment: Commitment,
    voters: AbstractSet[int],
) -> Iterator[Finding]:
    """Report where copies differ, and which one is wrong if that can be determined.

    The reference is the version that is committed, else the one that most voters hold.
    """
    reported: dict[int, list[Difference]] = {node: [] for node in copies}
    for offset in sorted(
        {difference.offset_lo for pair in pairs.values() for difference in pair.differences}
    ):
        nodes = [
            copy.node
            for copy in copies.values()
            if copy.start_offset <= offset < copy.end_offset and not _covering(reported[copy.node], offset)
        ]

        def rank(group: list[int], offset: int = offset) -> tuple[int, int, int, int]:
            known = any(commitment.claim_for(node, offset) for node in group)
            farthest = max(copies[node].end_offset for node in group)
            return known, len(voters & set(group)), len(group), farthest

        groups = sorted(_agreeing(nodes, pairs, offset), key=rank, reverse=True)
        for node in (node for group in groups[1:] for node in group):
            reference = groups[0][0]
            difference = _covering(pairs[reference, node].differences, offset)
            if difference is None:
                # The batches of these two have other bounds: they differ at another offset, where that is reported.
                continue
            reported[node].append(difference)
            is_outvoted = len(groups[0]) > 1
            finding = _judge(copies[reference], copies[node], difference, commitment, is_outvoted)
            if finding is not None:
                yield finding
    for copy in copies.values():
        missing = commitment.up_to - copy.end_offset
        if missing > 0:
            detail = f"{missing} committed records are missing; the node will fetch them after it starts"
            span = copy.end_offset, commitment.up_to
            yield Finding(Severity.INFO, "BEHIND", detail, copy.node, offset_lo=span[0], offset_hi=span[1])


def _agreeing(nodes: list[int], pairs: Mapping[tuple[int, int], Pair], offset: int) -> list[list[int]]:
    """Group the nodes by their content at an offset."""
    groups: list[list[int]] = []
    for node in nodes:
        for group in groups:
            if _covering(pairs[group[0], node].differences, offset) is None:
                group.append(node)
                break
        else:
            groups.append([node])
    return groups


def _covering(among: Iterable[Difference], offset: int) -> Difference | None:
    return next((each for each in among if each.offset_lo <= offset < each.offset_hi), None)


def _judge(
    one: Copy, two: Copy, difference: Difference, commitment: Commitment, is_outvoted: bool
) -> Finding | None:
    """Return the finding for a difference of two copies; None if known damage of either explains it.

    `is_outvoted` means that other copies agree with `one`.
    """
    offset_lo, offset_hi = difference.offset_lo, difference.offset_hi
    if one.damage_at(offset_lo) or two.damage_at(offset_lo):
        return None
    epochs = difference.epochs
    claims = [commitment.claim_for(copy.node, offset_lo) for copy in (one, two)]
    known = [epoch for epoch in epochs if epoch >= 0]
    nodes = two.node, one.node, None, None
    span = offset_lo, offset_hi, min(known, default=None), max(known, default=None)
    if not difference.reaches_end or epochs[0] == epochs[1]:
        committed = offset_lo < commitment.up_to
        detail = f"the batch of {_epochs_text(known)} differs from that of node {one.node}"
        if not is_outvoted:
            detail += "; these directories do not show which one is correct"
        return Finding(Severity.CRITICAL, "DIVERGED", detail, *nodes, *span, committed)
    if all(claims):
        reasons = "; ".join(c.why for c in claims if c is not None)
        detail = f"both versions are recorded as committed ({reasons})"
        return Finding(Severity.CRITICAL, "DIVERGED", detail, *nodes, *span, True)
    if claims[1] is not None or (claims[0] is None and epochs[1] > epochs[0]):
        one, two, claims = two, one, [claims[1], claims[0]]
        nodes = two.node, one.node, None, None
    claim = claims[0]
    if claim is not None and two.last_epoch > max(claim.epoch, one.last_epoch):
        detail = (
            f"a leader of epoch {two.last_epoch} lacked records committed in epoch {claim.epoch} or before"
        )
        return Finding(Severity.CRITICAL, "DIVERGED", detail, *nodes, *span, True)
    length = two.end_offset - offset_lo
    detail = f"the last {length} records are not committed: node {one.node} has other records there"
    span = offset_lo, two.end_offset, *span[2:]
    return Finding(Severity.INFO, "UNCOMMITTED_TAIL", detail, *nodes, *span, False)


def _epochs_text(epochs: list[int]) -> str:
    if not epochs:
        return "unknown epoch"
    return f"epoch {epochs[0]}" if len(set(epochs)) == 1 else f"epochs {min(epochs)} and {max(epochs)}"
