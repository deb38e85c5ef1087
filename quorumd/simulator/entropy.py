"""Randomness from one seed, in independent streams: one more draw in one stream shifts no other."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from quorumd.ids import METADATA_TOPIC_ID, ZERO_UUID, KafkaUuid


class Streams:
    """The streams of one seed, by name. The same name gives a fresh stream from the start each time."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def stream(self, *name: str | int) -> Random:
        # Random hashes a text with SHA-512, never with the hash() that PYTHONHASHSEED changes.
        return Random("/".join(str(part) for part in (self.seed, *name)))


class SimulatedEntropy:
    """The Entropy port of one life of one node."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.below: Callable[[int], int] = random.randrange

    def uuid(self) -> KafkaUuid:
        while True:
            candidate = KafkaUuid(self._random.randbytes(16))
            if candidate not in (ZERO_UUID, METADATA_TOPIC_ID) and not str(candidate).startswith("-"):
                return candidate
