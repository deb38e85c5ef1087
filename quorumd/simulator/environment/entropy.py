"""Randomness from one seed, in independent streams: a draw from one stream does not affect the others."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from random import Random
from struct import Struct

from quorumd.ids import METADATA_TOPIC_ID, ZERO_UUID, KafkaUuid

_STATE = Struct("<625I")
"""The state of a Mersenne Twister: its words, and the number of words used."""


class Streams:
    """The streams of one seed, by name. The same name always gives a new stream from its start."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._opened: list[tuple[str, Random]] = []

    def stream(self, *name: str | int) -> Random:
        # Random hashes a string with SHA-512, not with hash(), which depends on PYTHONHASHSEED.
        text = "/".join(str(part) for part in (self.seed, *name))
        stream = Random(text)
        self._opened.append((text, stream))
        return stream

    def draws_hash(self) -> str:
        """Return a hex digest of all streams in their order of creation, and their positions."""
        digest = blake2b(digest_size=16)
        for name, stream in self._opened:
            _, words, _ = stream.getstate()
            digest.update(name.encode() + _STATE.pack(*words))
        return digest.hexdigest()


class SimulatedEntropy:
    """The Entropy port of one incarnation of a node."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.randrange: Callable[[int], int] = random.randrange

    def uuid(self) -> KafkaUuid:
        while True:
            candidate = KafkaUuid(self._random.randbytes(16))
            if candidate not in (ZERO_UUID, METADATA_TOPIC_ID) and not str(candidate).startswith("-"):
                return candidate
