"""The Entropy port: the operating system's random source for identities, a generator seeded by it for waits."""

from __future__ import annotations

from random import Random
from uuid import uuid4

from quorumd.ids import KafkaUuid


class SystemEntropy:
    """The Entropy port."""

    def __init__(self) -> None:
        # A follower draws at every fetch: a system call for each would be felt.
        self._random = Random()

    def randrange(self, bound: int) -> int:
        """See `ports.Entropy`."""
        return self._random.randrange(bound)

    def uuid(self) -> KafkaUuid:
        """See `ports.Entropy`. Version 4 as Kafka's own; the reserved ones have no version."""
        while True:
            candidate = KafkaUuid(uuid4().bytes)
            # Kafka's tools would take a leading '-' for an option.
            if not str(candidate).startswith("-"):
                return candidate
