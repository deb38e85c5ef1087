"""Rack-aware, even placement of new partitions on brokers.

The placement of a partition depends only on the brokers, a seed (the topic's random id) and the partition's number,
so that partitions added later are placed as if they had been created with the topic.

A round has as many partitions as there are brokers that can lead, and each of these leads one. Racks take turns to
lead, in proportion to their number of such brokers. The seed chooses the first leader: every broker leads the first
partition with equal probability, whatever its rack. Kafka starts with a random rack instead, so that the brokers of a
small rack lead more of the topics with one partition. Followers are placed in the racks with the fewest replicas of
the partition.

The groups of slots that share a partition are computed once. Each round shuffles the brokers of a rack among the
rack's slots, so that the other replicas of a broker's partitions are spread over as many brokers as possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from heapq import heapify, heappop, heappush, heapreplace

from quorumd.controller.broker import Broker
from quorumd.controller.partition import Replicas

_FOLLOWERS, _RACKS, _BEGIN = b"follower", b"racks", b"begin"
"""Salts that make the decisions derived from one seed independent of each other."""


class Placement:
    """Places the partitions of one topic.

    `usable`: number of brokers that may hold a replica; `leader_candidates`: number of these that may lead. With
    fewer usable brokers than `replication_factor`, or none that can lead, nothing can be placed.
    """

    def __init__(self, brokers: Iterable[Broker], replication_factor: int, seed: bytes) -> None:
        slots = self._slots_in_order = _build_slots(brokers, seed)
        leaders = [slot for slot in slots if not slot.is_fenced]
        in_rack: dict[str | None, list[_Slot]] = {}
        for slot in slots:
            in_rack.setdefault(slot.rack, []).append(slot)
        self._leaders = _SlotQueue(leaders, _leader_key)
        self._followers = [_SlotQueue(group, _follower_key) for group in in_rack.values()]
        self.usable = len(slots)
        self.leader_candidates = len(leaders)
        self._replication_factor = replication_factor
        self._seed = seed
        self._pattern: list[list[int]] = []
        self._round = -1
        self._slot_brokers: list[int] = []

    def replicas_of(self, number: int) -> Replicas:
        """Return the replicas of this partition, the first of them active. Ascending numbers are the fastest."""
        round_number, position = divmod(number, self.leader_candidates)
        if round_number != self._round:
            self._round = round_number
            self._slot_brokers = self._assign_slots(round_number)
        while position >= len(self._pattern):
            self._pattern.append([slot.number for slot in self._next_slots()])
        slot_brokers = self._slot_brokers
        return tuple([slot_brokers[slot] for slot in self._pattern[position]])

    def _next_slots(self) -> list[_Slot]:
        """Return the slots of the next partition of a round, the leader first. Slots with the fewest replicas come
        first; among equals, a follower is one that has already led, so that the others remain free to lead."""
        leader = self._leaders.first(())
        assert leader is not None, "there is a slot that can lead"
        leader.leader_count += 1
        chosen = [leader]
        in_rack = {leader.rack: 1}
        while len(chosen) < self._replication_factor:
            firsts = [first for queue in self._followers if (first := queue.first(chosen)) is not None]
            follower = min(firsts, key=lambda slot: (in_rack.get(slot.rack, 0), *_follower_key(slot)))
            in_rack[follower.rack] = in_rack.get(follower.rack, 0) + 1
            chosen.append(follower)
        for slot in chosen:
            slot.replica_count += 1
        for queue in self._followers:
            queue.restore()
        return chosen

    def _assign_slots(self, round_number: int) -> list[int]:
        """Assign the brokers of each rack to its slots for this round."""
        salt = round_number.to_bytes(8, "big")
        groups: dict[tuple[str | None, bool], list[int]] = {}
        for slot in self._slots_in_order:
            groups.setdefault((slot.rack, slot.is_fenced), []).append(slot.broker_id)
        for broker_ids in groups.values():
            broker_ids.sort(key=lambda broker_id: _shuffle_key(self._seed, salt, broker_id), reverse=True)
        return [groups[slot.rack, slot.is_fenced].pop() for slot in self._slots_in_order]


class _Slot:
    """A position that a round fills with a broker, and the replicas that it has in a round so far.

    Leaders are ordered by `leader_position` and followers by `follower_order`, both random and independent of each
    other. `number` is the index in the list of slots.
    """

    __slots__ = (
        "broker_id",
        "follower_order",
        "is_fenced",
        "leader_count",
        "leader_position",
        "number",
        "rack",
        "replica_count",
    )

    def __init__(self, broker: Broker, leader_position: float, follower_order: bytes) -> None:
        self.broker_id = broker.id
        self.rack = broker.rack
        self.is_fenced = broker.is_fenced
        self.leader_position = leader_position
        self.follower_order = follower_order
        self.number = 0
        self.leader_count = 0
        self.replica_count = 0


_SlotKey = tuple[int, int, int | float, bytes, int]


def _leader_key(slot: _Slot) -> _SlotKey:
    return slot.leader_count, slot.replica_count, slot.leader_position, b"", slot.number


def _follower_key(slot: _Slot) -> _SlotKey:
    return int(slot.is_fenced), slot.replica_count, -slot.leader_count, slot.follower_order, slot.number


class _SlotQueue:
    """Slots in the order of a key that only grows, which has a slot only once.

    A heap holds each slot with a key that it once had: no other slot is before the first one with its present key, so
    that few slots are looked at, however many there are.
    """

    def __init__(self, slots: Iterable[_Slot], key: Callable[[_Slot], _SlotKey]) -> None:
        self._key = key
        self._heap = [(key(slot), slot) for slot in slots]
        heapify(self._heap)
        self._left_out: list[tuple[_SlotKey, _Slot]] = []

    def first(self, chosen: Sequence[_Slot]) -> _Slot | None:
        """Return the first slot that is not chosen, or None. Those that are chosen are left out until `restore`."""
        heap = self._heap
        while heap:
            entry = heap[0]
            key = self._key(entry[1])
            if entry[0] != key:
                heapreplace(heap, (key, entry[1]))
            elif entry[1] in chosen:
                self._left_out.append(heappop(heap))
            else:
                return entry[1]
        return None

    def restore(self) -> None:
        """Take the slots again that were left out."""
        while self._left_out:
            heappush(self._heap, self._left_out.pop())


def _build_slots(brokers: Iterable[Broker], seed: bytes) -> list[_Slot]:
    """Build a slot per usable broker: brokers in controlled shutdown and cordoned ones get no new replicas."""
    usable = [
        broker for broker in sorted(brokers) if not broker.in_controlled_shutdown and not broker.is_cordoned
    ]
    positions = _leader_positions([broker for broker in usable if not broker.is_fenced], seed)
    slots = [
        _Slot(broker, positions.get(broker.id, 0.0), _shuffle_key(seed, _FOLLOWERS, broker.id))
        for broker in usable
    ]
    for number, slot in enumerate(slots):
        slot.number = number
    return slots


def _leader_positions(active: Sequence[Broker], seed: bytes) -> dict[int, float]:
    """Return the positions of brokers on a circle that starts at the first leader, in [0, 1). The brokers of a rack
    are evenly spaced, so that every part of the circle has the same share of each rack."""
    in_rack = Counter(broker.rack for broker in active)
    counts = Counter[str | None]()
    positions: dict[int, float] = {}
    for broker in active:
        size = in_rack[broker.rack]
        positions[broker.id] = (counts[broker.rack] + _random_fraction(seed, broker.rack or "")) / size
        counts[broker.rack] += 1
    if not positions:
        return positions
    first = sorted(positions.values())[int(_random_fraction(seed, None) * len(positions))]
    return {broker_id: (leader_position - first) % 1.0 for broker_id, leader_position in positions.items()}


def _random_fraction(seed: bytes, rack: str | None) -> float:
    """Return a pseudo-random number in [0, 1) for a rack, or for the whole circle if None."""
    salt = _RACKS if rack is not None else _BEGIN
    digest = blake2b((rack or "").encode(), digest_size=6, key=seed, salt=salt).digest()
    return int.from_bytes(digest, "big") / (1 << 48)


def _shuffle_key(seed: bytes, salt: bytes, broker_id: int) -> bytes:
    """Return a sort key that shuffles brokers in the same way on every node."""
    return blake2b(broker_id.to_bytes(8, "big"), digest_size=8, key=seed, salt=salt).digest()
