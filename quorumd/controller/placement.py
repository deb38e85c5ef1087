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

    `usable`: how many brokers may hold one; `can_lead`: how many of them a partition may begin with. With fewer
    usable brokers than `replication_factor`, or none that can lead, nothing can be placed.
    """

    def __init__(self, brokers: Iterable[Broker], replication_factor: int, seed: bytes) -> None:
        self._seats = _seats_of(brokers, seed)
        self._leaders = [seat for seat in self._seats if not seat.is_fenced]
        self.usable = len(self._seats)
        self.can_lead = len(self._leaders)
        self._replication_factor = replication_factor
        self._seed = seed
        self._pattern: list[list[int]] = []
        self._round = -1
        self._seated: list[int] = []

    def replicas_of(self, number: int) -> Replicas:
        """The replicas of this partition, the first of them active. Partitions are best asked for in order."""
        of_round, position = divmod(number, self.can_lead)
        if of_round != self._round:
            self._round = of_round
            self._seated = self._seat(of_round)
        while position >= len(self._pattern):
            self._pattern.append([seat.number for seat in self._next_seats()])
        seated = self._seated
        return tuple([seated[seat] for seat in self._pattern[position]])

    def _next_seats(self) -> list[_Seat]:
        """The seats of the next partition of a round. Whoever leads and holds least is next; among those that hold
        equally few, one that has led already follows, so that who has not stays free to lead."""
        leader = min(self._leaders, key=lambda seat: (seat.leads, seat.holds, seat.turn))
        leader.leads += 1
        chosen = [leader]
        in_rack = {leader.rack: 1}
        while len(chosen) < self._replication_factor:
            follower = min(
                (seat for seat in self._seats if seat not in chosen),
                key=lambda seat: (
                    in_rack.get(seat.rack, 0),
                    seat.is_fenced,
                    seat.holds,
                    -seat.leads,
                    seat.order,
                ),
            )
            in_rack[follower.rack] = in_rack.get(follower.rack, 0) + 1
            chosen.append(follower)
        for seat in chosen:
            seat.holds += 1
        return chosen

    def _seat(self, of_round: int) -> list[int]:
        """Who is on which seat in this round: any broker that stands where it stands."""
        salt = of_round.to_bytes(8, "big")
        groups: dict[tuple[str | None, bool], list[int]] = {}
        for seat in self._seats:
            groups.setdefault((seat.rack, seat.is_fenced), []).append(seat.broker_id)
        for broker_ids in groups.values():
            broker_ids.sort(key=lambda broker_id: _shuffled(self._seed, salt, broker_id), reverse=True)
        return [groups[seat.rack, seat.is_fenced].pop() for seat in self._seats]


class _Seat:
    """Where a broker can be, and what is there so far in this round.

    `turn`: its place among those that lead; `order`: among those that follow, which is independent of it; `number`:
    its place in the list of seats.
    """

    __slots__ = ("broker_id", "holds", "is_fenced", "leads", "number", "order", "rack", "turn")

    def __init__(self, broker: Broker, turn: float, order: bytes) -> None:
        self.broker_id = broker.id
        self.rack = broker.rack
        self.is_fenced = broker.is_fenced
        self.turn = turn
        self.order = order
        self.number = 0
        self.leads = 0
        self.holds = 0


def _seats_of(brokers: Iterable[Broker], seed: bytes) -> list[_Seat]:
    """One for each usable broker. A broker that is about to go, or is cordoned, gets nothing new."""
    usable = [
        broker for broker in sorted(brokers) if not broker.in_controlled_shutdown and not broker.is_cordoned
    ]
    turns = _turns_to_lead([broker for broker in usable if not broker.is_fenced], seed)
    seats = [
        _Seat(broker, turns.get(broker.id, 0.0), _shuffled(seed, _FOLLOWERS, broker.id)) for broker in usable
    ]
    for number, seat in enumerate(seats):
        seat.number = number
    return seats


def _turns_to_lead(active: Sequence[Broker], seed: bytes) -> dict[int, float]:
    """By broker id where its seat is on a circle, counted from the one that begins. The brokers of each rack stand at
    equal distances, so that every part of the circle has the same share of each rack."""
    in_rack = Counter(broker.rack for broker in active)
    placed = Counter[str | None]()
    turns: dict[int, float] = {}
    for broker in active:
        size = in_rack[broker.rack]
        turns[broker.id] = (placed[broker.rack] + _fraction(seed, broker.rack or "")) / size
        placed[broker.rack] += 1
    if not turns:
        return turns
    begins = sorted(turns.values())[int(_fraction(seed, None) * len(turns))]
    return {broker_id: (turn - begins) % 1.0 for broker_id, turn in turns.items()}


def _fraction(seed: bytes, rack: str | None) -> float:
    """Of a rack, or of all for None: any number from 0 to less than 1."""
    salt = _RACKS if rack is not None else _BEGIN
    digest = blake2b((rack or "").encode(), digest_size=6, key=seed, salt=salt).digest()
    return int.from_bytes(digest, "big") / (1 << 48)


def _shuffled(seed: bytes, salt: bytes, broker_id: int) -> bytes:
    """Sorts brokers in an order that has nothing to do with anything, and is the same everywhere."""
    return blake2b(broker_id.to_bytes(8, "big"), digest_size=8, key=seed, salt=salt).digest()
