"""The settings of a broker's APIs, with Kafka's defaults. Sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Settings of the APIs, with the property of each."""

    fetch_max_bytes: int = 55 * 1024 * 1024
    """`fetch.max.bytes`: the limit of one response, even if the request allows more."""
    fetch_memory_bytes: int = 256 * 1024 * 1024
    """The limit of records in responses that clients have not received yet; above it, a response has one batch."""
    fetch_session_slots: int = 1000
    """`max.incremental.fetch.session.cache.slots`."""
    is_rack_aware: bool = False
    """`replica.selector.class`: whether consumers are sent to a replica in their rack (KIP-392)."""
