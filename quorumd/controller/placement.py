"""Which brokers a new partition goes to: on different racks while there are, and evenly.

Where a partition goes depends on the brokers, a seed (the topic's id) and its number alone, so that partitions that
a topic gets later go where they would have gone at once.

There are as many partitions in a round as brokers that can lead, and each leads one of them. Which seats of a round
share a partition is worked out once; each round then seats the brokers anew, each on a seat of its rack, so that
the partitions of one broker have their other replicas on as many brokers as possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from quorumd.controller.broker import Broker
from quorumd.controller.partition import Replicas


class Placement:
    """Replicas for the partitions of one topic.

    `usable`: how many brokers may hold one; `can_lead`: how many of them a partition may begin with. With fewer
    usable brokers than `replication_factor`, or none that can lead, nothing can be placed.
    """

    def __init__(self, brokers: Iterable[Broker], replication_factor: int, seed: bytes) -> None:
        self._seats = _seats_of(brokers)
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
        leader = min(self._leaders, key=lambda seat: (seat.leads, seat.holds, seat.number))
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
                    seat.number,
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
    """Where a broker can be, and what is there so far in this round."""

    __slots__ = ("broker_id", "holds", "is_fenced", "leads", "number", "rack")

    def __init__(self, broker_id: int, rack: str | None, is_fenced: bool) -> None:
        self.broker_id = broker_id
        self.rack = rack
        self.is_fenced = is_fenced
        self.number = 0
        self.leads = 0
        self.holds = 0


def _seats_of(brokers: Iterable[Broker]) -> list[_Seat]:
    """One for each usable broker, racks taking turns. A broker that is about to go gets nothing new."""
    in_rack: dict[str | None, int] = {}
    turns: list[tuple[int, str, _Seat]] = []
    for broker in sorted(brokers):
        if broker.in_controlled_shutdown:
            continue
        turn = in_rack.get(broker.rack, 0)
        in_rack[broker.rack] = turn + 1
        turns.append((turn, broker.rack or "", _Seat(broker.id, broker.rack, broker.is_fenced)))
    turns.sort(key=lambda each: each[:2])
    seats = [seat for _, _, seat in turns]
    for number, seat in enumerate(seats):
        seat.number = number
    return seats


def _shuffled(seed: bytes, salt: bytes, broker_id: int) -> bytes:
    """Sorts brokers in an order that has nothing to do with anything, and is the same everywhere."""
    return blake2b(broker_id.to_bytes(8, "big"), digest_size=8, key=seed, salt=salt).digest()
