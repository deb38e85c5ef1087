"""Linearizability check for the history of an append-only list.

A read returns the whole list, so the longest read gives the order in which appends took effect. What remains is
to check that calls and returns allow that order, with the search in `linearizability`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from quorumd.simulator.checkers.linearizability import Operation, linearize

APPEND = "append"
READ = "read"


def check_append_only_list(history: Sequence[Operation]) -> bool:
    """Return whether the operations on one key linearize, starting from an empty list.

    All appended values must differ. `value` is the appended value for an append, the returned tuple for a read.
    """
    reads = [each for each in history if each.kind == READ and each.returned_ms != inf]
    order: tuple[str, ...] = max((each.value for each in reads), key=len, default=())
    appended = {each.value for each in history if each.kind == APPEND}
    if len(set(order)) != len(order) or not appended.issuperset(order):
        return False
    if any(each.value != order[: len(each.value)] for each in reads):
        return False
    places = {value: place for place, value in enumerate(order)}

    def apply(length: int, operation: Operation) -> tuple[bool, int]:
        if operation.kind == READ:
            return length == len(operation.value), length
        # Unobserved appends come after all observed ones, in any order.
        place = places.get(operation.value, len(order))
        return place == min(length, len(order)), length + 1

    return linearize(_settled(history, reads, places), 0, apply) is not None


def _settled(
    history: Sequence[Operation], reads: Sequence[Operation], places: dict[str, int]
) -> list[Operation]:
    """Return the history without calls of unknown outcome.

    An observed append took effect before the first read that saw it returned; an unobserved one is dropped, because
    it is equivalent to one that comes last.
    """
    seen_by = [inf] * len(places)
    for read in reads:
        for place in range(len(read.value)):
            seen_by[place] = min(seen_by[place], read.returned_ms)
    settled = []
    for each in history:
        if each.returned_ms != inf:
            settled.append(each)
        elif each.kind == APPEND and each.value in places:
            returned = seen_by[places[each.value]]
            settled.append(Operation(each.client, APPEND, each.key, each.value, each.called_ms, returned))
    return settled
