"""The server-side assignors of the consumer protocol, which compute the target assignment.

    range    contiguous ranges of each topic's partitions, to members ordered by instance id or member id
    uniform  the same number of partitions per member, moving as few as possible from the previous target

Both assign every partition of a subscribed topic to one member that subscribes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from quorumd.broker.coordinator.consumer_group import EMPTY_ASSIGNMENT, Assignment
from quorumd.ids import KafkaUuid

Subscriptions = Mapping[str, frozenset[KafkaUuid]]
"""Member id -> subscribed topic ids, in the order of instance ids or member ids."""
Targets = dict[str, Assignment]
Partition = tuple[KafkaUuid, int]


def assign_range(
    subscriptions: Subscriptions, partitions: Mapping[KafkaUuid, int], previous: Mapping[str, Assignment]
) -> Targets:
    """Assign a contiguous range of the partitions of each topic to each subscriber."""
    del previous
    targets: dict[str, set[Partition]] = {member: set() for member in subscriptions}
    for topic in sorted(partitions):
        members = [member for member, topics in subscriptions.items() if topic in topics]
        count, start = partitions[topic], 0
        for index, member in enumerate(members):
            size = count // len(members) + (index < count % len(members))
            targets[member].update((topic, number) for number in range(start, start + size))
            start += size
    return {member: frozenset(each) for member, each in targets.items()}


def assign_uniform(
    subscriptions: Subscriptions, partitions: Mapping[KafkaUuid, int], previous: Mapping[str, Assignment]
) -> Targets:
    """Balance the number of partitions per member, and keep previous targets where possible."""
    if not subscriptions:
        return {}
    targets: dict[str, set[Partition]] = {}
    assigned: set[Partition] = set()
    for member, topics in subscriptions.items():
        kept = {
            each
            for each in previous.get(member, EMPTY_ASSIGNMENT)
            if each[0] in topics and each[1] < partitions.get(each[0], 0) and each not in assigned
        }
        targets[member] = kept
        assigned |= kept
    subscribers = {
        topic: [member for member, topics in subscriptions.items() if topic in topics] for topic in partitions
    }
    # Topics with few subscribers first: they leave the fewest choices.
    for topic in sorted(partitions, key=lambda each: (len(subscribers[each]), each)):
        for number in range(partitions[topic]):
            if (topic, number) not in assigned and subscribers[topic]:
                least = min(subscribers[topic], key=lambda member: len(targets[member]))
                targets[least].add((topic, number))
    _balance(targets, subscribers)
    return {member: frozenset(each) for member, each in targets.items()}


def _balance(targets: dict[str, set[Partition]], subscribers: Mapping[KafkaUuid, Sequence[str]]) -> None:
    """Move partitions to subscribers that have at least two fewer, until no such subscriber is left."""
    moved = True
    while moved:
        moved = False
        for member in sorted(targets, key=lambda each: -len(targets[each])):
            for each in sorted(targets[member], reverse=True):
                least = min(subscribers[each[0]], key=lambda other: len(targets[other]))
                if len(targets[member]) < len(targets[least]) + 2:
                    continue
                targets[member].remove(each)
                targets[least].add(each)
                moved = True


ASSIGNORS: Final[
    dict[str, Callable[[Subscriptions, Mapping[KafkaUuid, int], Mapping[str, Assignment]], Targets]]
] = {"uniform": assign_uniform, "range": assign_range}
