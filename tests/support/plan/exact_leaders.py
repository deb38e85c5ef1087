"""The most even choice of leaders, by matchings: an oracle that shares no code with the planner."""

from __future__ import annotations

from collections.abc import Sequence


def smallest_maximum_and_largest_minimum(
    rows: Sequence[Sequence[int]], alive: Sequence[int]
) -> tuple[int, int]:
    """Return the smallest possible maximum and the largest possible minimum of the numbers of partitions that brokers
    lead. Each row needs a replica in `alive`."""
    options = [[broker for broker in row if broker in alive] for row in rows]
    most = next(limit for limit in range(1, len(rows) + 1) if _are_led(options, limit))
    fewest = max(count for count in range(len(rows) // len(alive) + 1) if _has_each(options, alive, count))
    return most, fewest


def _are_led(options: Sequence[Sequence[int]], limit: int) -> bool:
    """Whether every partition has a leader if each broker leads at most `limit`."""
    return _is_matched([[(broker, slot) for broker in row for slot in range(limit)] for row in options])


def _has_each(options: Sequence[Sequence[int]], alive: Sequence[int], count: int) -> bool:
    """Whether each broker can lead at least `count` partitions."""
    having = {broker: [(row, 0) for row, found in enumerate(options) if broker in found] for broker in alive}
    return _is_matched([having[broker] for broker in alive for _ in range(count)])


def _is_matched(wanted: Sequence[Sequence[tuple[int, int]]]) -> bool:
    """Whether each row of `wanted` can get one of its places without sharing it, found by augmenting paths."""
    owner: dict[tuple[int, int], int] = {}

    def find(one: int, tried: set[tuple[int, int]]) -> bool:
        for place in wanted[one]:
            if place not in tried:
                tried.add(place)
                if place not in owner or find(owner[place], tried):
                    owner[place] = one
                    return True
        return False

    return all(find(one, set()) for one in range(len(wanted)))
