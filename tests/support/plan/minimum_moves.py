"""A lower bound of the moves of a plan, by a minimum-cost flow: slow, and independent of the planner.

A replica flows from its partition through a rack to a broker, at cost 0 to a broker that has it, and at cost 1 to any
other broker of the rack. Upper bounds of racks and brokers are capacities; lower bounds have a reward that outweighs
all costs. The flow may put several replicas of a partition on one broker, so that the result may be too low, but
never too high.
"""

from __future__ import annotations

from collections import deque

from quorumd.pipeline.plan.planning import Outcome

_REWARD = 10_000


class Flow:
    """A flow network. Every edge is followed by its reverse edge."""

    def __init__(self) -> None:
        self.heads: list[int] = []
        self.residual: list[int] = []
        """The capacity that is left on each edge."""
        self.cost: list[int] = []
        self.out: list[list[int]] = []

    def node(self) -> int:
        self.out.append([])
        return len(self.out) - 1

    def edge(self, tail: int, head: int, capacity: int, cost: int = 0) -> None:
        if capacity <= 0:
            return
        for start, end, residual, price in ((tail, head, capacity, cost), (head, tail, 0, -cost)):
            self.out[start].append(len(self.heads))
            self.heads.append(end)
            self.residual.append(residual)
            self.cost.append(price)

    def at_least(self, tail: int, head: int, low: int, high: int) -> None:
        self.edge(tail, head, low, -_REWARD)
        self.edge(tail, head, high - low)

    def cheapest(self, source: int, sink: int) -> tuple[int, int]:
        """Return the maximum flow and its cost, by successive shortest paths."""
        flow = cost = 0
        while True:
            distance, through = self._shortest(source)
            if sink not in distance:
                return flow, cost
            width, node = 1 << 30, sink
            while node != source:
                width = min(width, self.residual[through[node]])
                node = self.heads[through[node] ^ 1]
            node = sink
            while node != source:
                self.residual[through[node]] -= width
                self.residual[through[node] ^ 1] += width
                node = self.heads[through[node] ^ 1]
            flow, cost = flow + width, cost + width * distance[sink]

    def _shortest(self, source: int) -> tuple[dict[int, int], dict[int, int]]:
        distance, through = {source: 0}, {}
        waiting, queued = deque([source]), {source}
        while waiting:
            node = waiting.popleft()
            queued.discard(node)
            for edge in self.out[node]:
                head, far = self.heads[edge], distance[node] + self.cost[edge]
                if self.residual[edge] and far < distance.get(head, 1 << 60):
                    distance[head], through[head] = far, edge
                    if head not in queued:
                        queued.add(head)
                        waiting.append(head)
        return distance, through


def fewest_moves(outcome: Outcome) -> int:
    """Return a lower bound of the moves of any plan for the same state, rules and bands."""
    flow = Flow()
    source, sink = flow.node(), flow.node()
    brokers = [flow.node() for _ in outcome.broker_index.ids]
    pools = [flow.node() for _ in range(outcome.rules.most.shape[1])]
    rewards = 0
    for broker, rack in enumerate(outcome.broker_index.rack_of.tolist()):
        low, high = int(outcome.within.low[broker]), int(outcome.within.high[broker])
        flow.at_least(brokers[broker], sink, low, high)
        rewards += low
        if rack >= 0:
            flow.edge(pools[rack], brokers[broker], high)
    for row, wanted in zip(outcome.old.tolist(), outcome.wanted.tolist(), strict=True):
        partition = flow.node()
        flow.edge(source, partition, wanted)
        for rack, pool in enumerate(pools):
            low, high = int(outcome.rules.fewest[wanted, rack]), int(outcome.rules.most[wanted, rack])
            if high:
                place = flow.node()
                flow.at_least(partition, place, low, high)
                rewards += low
                flow.edge(place, pool, high, 1)
                for broker in row:
                    if broker >= 0 and outcome.broker_index.rack_of[broker] == rack:
                        flow.edge(place, brokers[broker], 1)
    amount, cost = flow.cheapest(source, sink)
    assert amount == int(outcome.wanted.sum()), "all replicas find a place"
    found = cost + rewards * _REWARD
    assert found < _REWARD, "all bounds are kept"
    return found
