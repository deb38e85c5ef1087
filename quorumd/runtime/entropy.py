"""The Entropy port on the operating system's random source."""

from __future__ import annotations

from secrets import randbelow
from uuid import uuid4

from quorumd.ids import KafkaUuid


class SystemEntropy:
    """The Entropy port."""

    def below(self, bound: int) -> int:
        """See `ports.Entropy`."""
        return randbelow(bound)

    def uuid(self) -> KafkaUuid:
        """See `ports.Entropy`. Version 4 as Kafka's own; the reserved ones have no version."""
        while True:
            candidate = KafkaUuid(uuid4().bytes)
            # Kafka's tools would take a leading '-' for an option.
            if not str(candidate).startswith("-"):
                return candidate
