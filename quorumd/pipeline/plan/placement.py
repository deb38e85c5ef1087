"""The replicas of partitions during planning: which broker may take which replica, and the effects of a move."""

from __future__ import annotations

from copy import copy

import numpy as np

from quorumd.pipeline.plan.arrays import (
    NONE,
    Ints,
    Mask,
    Rows,
    any_in_row,
    fractions,
    mixed,
    not_in,
    rank_within,
    sum_before,
    sum_of_row,
)
from quorumd.pipeline.plan.targets import RackRules

_BLOCK_CELLS = 8_000_000
"""Cells of a matrix of partitions and racks per step."""


class Placement:
    """The replicas of partitions, with the resulting loads of brokers; `put` changes `rows` in place.

    `wanted` is the target replication factor of each partition, `weights` the weight of a replica of each (1, or its
    bytes), `topics` the index of its topic, from 0 without gaps. `rack_of` is the rack of each broker, NONE for a
    broker to drain; `limits` is the maximum number of replicas of each topic on one broker.
    """

    def __init__(
        self,
        rows: Rows,
        wanted: Ints,
        weights: Ints,
        topics: Ints,
        rack_of: Ints,
        rules: RackRules,
        limits: Ints | None = None,
    ) -> None:
        self.rows = rows
        self.wanted = wanted
        self.weights = weights
        self.topics = topics
        self.rack_of = rack_of
        self.rules = rules
        self.brokers = len(rack_of)
        self.racks = rules.most.shape[1]
        self.loads = np.zeros(self.brokers, np.int64)
        here = rows >= 0
        brokers = rows[here].astype(np.int64)
        weight_of = np.broadcast_to(weights[:, None], rows.shape)[here]
        np.add.at(self.loads, brokers, weight_of)
        self._topic_count = int(topics.max(initial=-1)) + 1
        of_topic = np.broadcast_to(topics[:, None], rows.shape)[here]
        keys = of_topic * self.brokers + brokers
        self.of_topic = np.bincount(keys, minlength=self._topic_count * self.brokers).astype(np.int32)
        self.limits = self._topic_limits() if limits is None else limits

    def _topic_limits(self) -> Ints:
        """Return the larger of an even share of each topic and the current maximum on one broker."""
        if not self._topic_count:
            return np.zeros(0, np.int64)
        alive = max(int((self.rack_of >= 0).sum()), 1)
        totals = np.bincount(self.topics, self.wanted, self._topic_count)
        fullest = self.of_topic.reshape(self._topic_count, self.brokers).max(1)
        return np.asarray(np.maximum(np.ceil(totals / alive).astype(np.int64), fullest))

    def copy(self) -> Placement:
        found = copy(self)
        found.rows, found.loads, found.of_topic = self.rows.copy(), self.loads.copy(), self.of_topic.copy()
        return found

    def moved_from(self, original: Rows) -> int:
        """Return the weight of all replicas that are on other brokers than in these rows."""
        return int((sum_of_row(not_in(self.rows, original)) * self.weights).sum())

    def put(self, partitions: Ints, columns: Ints, brokers: Ints) -> None:
        """Set the brokers (or NONE) at these places; each place at most once."""
        weights, keys = self.weights[partitions], self.topics[partitions] * self.brokers
        before = self.rows[partitions, columns].astype(np.int64)
        for held, sign in ((before, -1), (brokers, 1)):
            real = held >= 0
            np.add.at(self.loads, held[real], sign * weights[real])
            np.add.at(self.of_topic, keys[real] + held[real], sign)
        self.rows[partitions, columns] = brokers

    def rack_counts(self, partitions: Ints, columns: Ints | None = None) -> Ints:
        """Return the number of replicas in each rack, without those at `columns`: (partitions, racks)."""
        rows = self.rows[partitions]
        racks = np.where(rows >= 0, self.rack_of[rows], NONE)
        racks[racks < 0] = self.racks
        if columns is not None:
            racks[np.arange(len(racks)), columns] = self.racks
        counts = np.zeros((len(racks), self.racks + 1), np.int64)
        each = np.arange(len(racks))
        for column in range(racks.shape[1]):
            counts[each, racks[:, column]] += 1
        return counts[:, :-1]

    def allowed_racks(self, partitions: Ints, columns: Ints) -> Mask:
        """Return the racks that may take the replica at one place of each partition."""
        counts = self.rack_counts(partitions, columns)
        wanted = self.wanted[partitions]
        fewest = self.rules.fewest[wanted]
        allowed = counts < self.rules.most[wanted]
        missing = sum_of_row(np.maximum(fewest - counts, 0))
        tight = missing >= wanted - sum_of_row(counts)
        return np.where(tight[:, None], counts < fewest, allowed)

    def accepted(
        self, partitions: Ints, columns: Ints, room: Ints, salt: int, *, keep_spread: bool
    ) -> tuple[Ints, Ints]:
        """Choose brokers for replicas at these places, each of another partition, all at once.

        Returns indexes into `partitions` and a broker for each, within the room of the brokers.
        """
        racks = self._chosen_racks(partitions, columns, room, salt)
        brokers = self._chosen_brokers(partitions, racks, room, salt)
        fits = np.flatnonzero(brokers >= 0)
        chosen = brokers[fits]
        where = partitions[fits]
        ok = ~any_in_row(self.rows[where] == chosen[:, None])
        fits, chosen, where = fits[ok], chosen[ok], where[ok]
        if keep_spread:
            topics = self.topics[where]
            keys = topics * self.brokers + chosen
            ok = self.of_topic[keys] + rank_within(keys) < self.limits[topics]
            fits, chosen, where = fits[ok], chosen[ok], where[ok]
        ok = sum_before(chosen, self.weights[where]) <= room[chosen]
        return fits[ok], chosen[ok]

    def _chosen_racks(self, partitions: Ints, columns: Ints, room: Ints, salt: int) -> Ints:
        """Choose one of the allowed racks for each partition, by the racks' room; NONE if there is none."""
        alive = self.rack_of >= 0
        of_rack = np.bincount(self.rack_of[alive], room[alive].astype(np.float64), self.racks)
        block = max(1, _BLOCK_CELLS // max(self.racks, 1))
        found = np.empty(len(partitions), np.int64)
        for start in range(0, len(partitions), block):
            part = slice(start, start + block)
            running = np.cumsum(self.allowed_racks(partitions[part], columns[part]) * of_rack, axis=1)
            at = fractions(partitions[part], salt) * running[:, -1]
            found[part] = np.where(running[:, -1] > 0, sum_of_row(running <= at[:, None]), NONE)
        return found

    def _chosen_brokers(self, partitions: Ints, racks: Ints, room: Ints, salt: int) -> Ints:
        """Choose a broker of the rack for each partition, spread evenly over the room of the rack; NONE if no rack
        was chosen."""
        found = np.full(len(partitions), NONE, np.int64)
        for rack in np.unique(racks[racks >= 0]):
            brokers = np.flatnonzero((self.rack_of == rack) & (room > 0))
            going = np.flatnonzero(racks == rack)
            if not len(brokers):
                continue
            going = going[np.argsort(mixed(partitions[going], salt + 1), kind="stable")]
            edges = np.cumsum(room[brokers])
            total = int(edges[-1])
            step = max(total / len(going), 1.0)
            # Start at another position each time; otherwise, a single replica would always get the same broker.
            start = float(fractions(np.array([rack]), salt + 1)[0]) * total
            spots = (start + np.arange(len(going)) * step).astype(np.int64) % total
            found[going] = brokers[np.searchsorted(edges, spots, side="right")]
        return found
