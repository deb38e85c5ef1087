"""The Entropy port: the system's random source for Uuids and secrets, a generator seeded from it for delays."""

from __future__ import annotations

from random import Random, SystemRandom
from uuid import uuid4

from quorumd.ids import KafkaUuid

MAX_PREDICTABLE = 1 << 32
"""The largest bound below which integers need not be secret."""


class SystemEntropy:
    """The Entropy port."""

    def __init__(self) -> None:
        # A follower draws a number at every fetch, where a system call would be too expensive.
        self._random = Random()
        self._secrets = SystemRandom()

    def randrange(self, bound: int) -> int:
        """See `ports.Entropy`."""
        source = self._secrets if bound > MAX_PREDICTABLE else self._random
        return source.randrange(bound)

    def uuid(self) -> KafkaUuid:
        """See `ports.Entropy`. Version 4 like Kafka's; the reserved Uuids have no version."""
        while True:
            candidate = KafkaUuid(uuid4().bytes)
            # Kafka's tools would parse a leading '-' as an option.
            if not str(candidate).startswith("-"):
                return candidate
