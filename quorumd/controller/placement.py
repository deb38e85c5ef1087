"""Which brokers a new partition goes to: on different racks while there are, and evenly.

Where a partition goes depends on the brokers, a seed (the topic's id, which is random) and its number alone, so that
partitions that a topic gets later go where they would have gone at once.

There are as many partitions in a round as brokers that can lead, and each leads one of them. Racks take turns to
lead, as often as they have brokers that can. The seed decides who begins: the first partition of a topic is led by
any broker with equal probability, in whatever rack it is, and followed by any of the racks that have no replica yet.
Kafka begins with any rack instead: there the brokers of a small rack lead more of the topics with one partition.

Which seats of a round share a partition is worked out once; each round then seats the brokers anew, each on a seat of
its rack, so that the partitions of one broker have their other replicas on as many brokers as possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from quorumd.controller.broker import Broker
from quorumd.controller.partition import Replicas

_FOLLOWERS, _RACKS, _BEGIN = b"follower", b"racks", b"begin"
"""Salts: what is decided by the seed does not depend on what else is."""


class Placement:
    """Replicas for the partitions of one topic.

    `usable`: how many brokers may hold one; `leader_candidates`: how many of them a partition may begin with. With
    fewer usable brokers than `replication_factor`, or none that can lead, nothing can be placed.
    """

    def __init__(self, brokers: Iterable[Broker], replication_factor: int, seed: bytes) -> None:
        self._slots_in_order = _build_slots(brokers, seed)
        self._leaders = [slot for slot in self._slots_in_order if not slot.is_fenced]
        self.usable = len(self._slots_in_order)
        self.leader_candidates = len(self._leaders)
        self._replication_factor = replication_factor
        self._seed = seed
        self._pattern: list[list[int]] = []
        self._round = -1
        self._slot_brokers: list[int] = []

    def replicas_of(self, number: int) -> Replicas:
        """The replicas of this partition, the first of them active. Partitions are best asked for in order."""
        round_number, position = divmod(number, self.leader_candidates)
        if round_number != self._round:
            self._round = round_number
            self._slot_brokers = self._assign_slots(round_number)
        while position >= len(self._pattern):
            self._pattern.append([slot.number for slot in self._next_slots()])
        slot_brokers = self._slot_brokers
        return tuple([slot_brokers[slot] for slot in self._pattern[position]])

    def _next_slots(self) -> list[_Slot]:
        """The seats of the next partition of a round. Whoever leads and holds least is next; among those that hold
        equally few, one that has led already follows, so that who has not stays free to lead."""
        leader = min(
            self._leaders, key=lambda slot: (slot.leader_count, slot.replica_count, slot.leader_position)
        )
        leader.leader_count += 1
        chosen = [leader]
        in_rack = {leader.rack: 1}
        while len(chosen) < self._replication_factor:
            follower = min(
                (slot for slot in self._slots_in_order if slot not in chosen),
                key=lambda slot: (
                    in_rack.get(slot.rack, 0),
                    slot.is_fenced,
                    slot.replica_count,
                    -slot.leader_count,
                    slot.follower_order,
                ),
            )
            in_rack[follower.rack] = in_rack.get(follower.rack, 0) + 1
            chosen.append(follower)
        for slot in chosen:
            slot.replica_count += 1
        return chosen

    def _assign_slots(self, round_number: int) -> list[int]:
        """Who is on which seat in this round: any broker that stands where it stands."""
        salt = round_number.to_bytes(8, "big")
        groups: dict[tuple[str | None, bool], list[int]] = {}
        for slot in self._slots_in_order:
            groups.setdefault((slot.rack, slot.is_fenced), []).append(slot.broker_id)
        for broker_ids in groups.values():
            broker_ids.sort(key=lambda broker_id: _shuffle_key(self._seed, salt, broker_id), reverse=True)
        return [groups[slot.rack, slot.is_fenced].pop() for slot in self._slots_in_order]


class _Slot:
    """Where a broker can be, and what is there so far in this round.

    `turn`: its place among those that lead; `order`: among those that follow, which is independent of it; `number`:
    its place in the list of seats.
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


def _build_slots(brokers: Iterable[Broker], seed: bytes) -> list[_Slot]:
    """One for each usable broker. A broker that is about to go, or is cordoned, gets nothing new."""
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
    """By broker id where its seat is on a circle, counted from the one that begins. The brokers of each rack stand at
    equal distances, so that every part of the circle has the same share of each rack."""
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
    """Of a rack, or of all for None: any number from 0 to less than 1."""
    salt = _RACKS if rack is not None else _BEGIN
    digest = blake2b((rack or "").encode(), digest_size=6, key=seed, salt=salt).digest()
    return int.from_bytes(digest, "big") / (1 << 48)


def _shuffle_key(seed: bytes, salt: bytes, broker_id: int) -> bytes:
    """Sorts brokers in an order that has nothing to do with anything, and is the same everywhere."""
    return blake2b(broker_id.to_bytes(8, "big"), digest_size=8, key=seed, salt=salt).digest()
