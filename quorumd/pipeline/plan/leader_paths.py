"""Makes a choice of preferred leaders as even as the replicas allow.

A partition led by broker u with a replica on broker w is an edge from u to w: its leadership can be passed on. If a
path leads from a broker to one that leads at least two partitions fewer, passing one leadership along each of its
edges makes both more even. A choice without such a path is optimal: no other one has a smaller maximum, a larger
minimum, or a smaller sum of squares (Harvey et al., Semi-matchings for bipartite graphs and load balancing, 2006).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from quorumd.pipeline.plan.arrays import Ints, Mask, Rows, any_in_row


def evened(options: Rows, chosen: Ints, may_lead: Mask) -> Ints:
    """Return the column of the leader per row, without a path that would make them more even.

    `options` are brokers, NONE for none, of which only those in `may_lead` become leaders; a row without one keeps
    its choice.
    """
    chosen = _chosen_of(options, chosen, may_lead)
    counts = np.bincount(options[np.arange(len(options)), chosen], minlength=len(may_lead))
    # Start with the broker that leads most; a broker without a path never gets one by the paths of other brokers.
    waiting = sorted(np.flatnonzero(may_lead).tolist(), key=lambda broker: -counts[broker])
    for broker in waiting:
        while counts[broker] > counts[may_lead].min() + 1:
            path = _path(options, chosen, may_lead, counts, broker)
            if path is None:
                break
            _pass_along(options, chosen, counts, path)
    return chosen


def _chosen_of(options: Rows, chosen: Ints, may_lead: Mask) -> Ints:
    """Return the choice with the first broker that may lead instead of one that may not."""
    allowed = (options >= 0) & may_lead[options]
    is_wrong = ~allowed[np.arange(len(options)), chosen] & any_in_row(allowed)
    return np.where(is_wrong, np.argmax(allowed, axis=1), chosen)


def _path(options: Rows, chosen: Ints, may_lead: Mask, counts: Ints, start: int) -> list[int] | None:
    """Return a shortest path of brokers from `start` to one that leads at least two fewer; None if there is none."""
    leaders = options[np.arange(len(options)), chosen]
    came_from = np.full(len(may_lead), -1, np.int64)
    came_from[start] = start
    reached = [start]
    while reached:
        going = np.flatnonzero(np.isin(leaders, reached))
        others = options[going]
        new = (others >= 0) & may_lead[others] & (came_from[others] < 0)
        rows, columns = np.nonzero(new)
        targets = others[rows, columns]
        came_from[targets] = leaders[going[rows]]
        reached = np.unique(targets).tolist()
        ends = [broker for broker in reached if counts[broker] <= counts[start] - 2]
        if ends:
            path = [min(ends, key=lambda broker: int(counts[broker]))]
            while path[-1] != start:
                path.append(int(came_from[path[-1]]))
            return path[::-1]
    return None


def _pass_along(options: Rows, chosen: Ints, counts: Ints, path: list[int]) -> None:
    """Let each broker of a path pass the leadership of one partition to the next."""
    leaders = options[np.arange(len(options)), chosen]
    for giver, taker in pairwise(path):
        holds = (leaders == giver) & any_in_row(options == taker)
        row = int(np.flatnonzero(holds)[0])
        chosen[row] = int(np.flatnonzero(options[row] == taker)[0])
    counts[path[0]] -= 1
    counts[path[-1]] += 1
