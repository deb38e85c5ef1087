"""Whether a history of concurrent calls is that of a list to which values are only ever appended.

A read returns the whole list, so the longest one read tells the order in which appends took effect: all that
is left is to see whether calls and returns allow that order. The search for it is that of `linearizability`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from quorumd.simulator.checkers.linearizability import Operation, linearize

APPEND = "append"
READ = "read"


def check_append_only_list(history: Sequence[Operation]) -> bool:
    """Whether the operations of one key, with all appended values different, are those of an empty list.

    Of an append `value` is what it adds, of a read the tuple of values that it saw.
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
        # What nobody saw comes behind all that was seen, in any order.
        place = places.get(operation.value, len(order))
        return place == min(length, len(order)), length + 1

    return linearize(_settled(history, reads, places), 0, apply) is not None


def _settled(
    history: Sequence[Operation], reads: Sequence[Operation], places: dict[str, int]
) -> list[Operation]:
    """The history without calls of unknown outcome: an append took effect before the first read that saw it
    returned; one that nobody saw is as good as one that comes last.
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
