"""Delays responses until the new topics that they describe are served.

Kafka's brokers respond at once: without the topics that the request creates, so that the first record waits for the
`retry.backoff.ms` of its producer, and with leaders that do not accept records yet. A partition without a leader is
worse: kafka-go does not request it again for 6 s.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from quorumd.broker.api.context import BrokerApiContext
from quorumd.controller.partition import PartitionId
from quorumd.protocol.messages.metadata_request import MetadataRequestTopic

MAX_WAIT_MS: Final = 500.0
FIRST_CHECK_MS: Final = 1.0
"""The delay of the first check; it doubles with every further check."""
MAX_OPENING: Final = 1000
"""If more partitions are being opened, or more topics requested, responses wait only for topics that they create."""


class NewTopics:
    """Waits until topics are served here."""

    def __init__(self, context: BrokerApiContext) -> None:
        self._context = context

    def opening(self, requested: Collection[MetadataRequestTopic] | None) -> set[str]:
        """Return the names of those requested topics, None for all, with partitions that this broker will lead once
        they are open."""
        context = self._context
        opening = context.partitions.opening
        if not opening or max(len(opening), len(requested or ())) > MAX_OPENING:
            return set()
        topics = context.metadata.image.topics
        led = {
            topic.id: topic.name
            for each in opening
            if (topic := topics.get(each.topic_id)) is not None
            and (partition := topic.partitions.get(each.number)) is not None
            and partition.leader == context.settings.broker_id
        }
        names = set(led.values())
        if requested is None:
            return names
        return {name for each in requested if (name := led.get(each.topic_id, each.name)) in names}

    def when_served(self, names: Collection[str], callback: Callable[[], None]) -> None:
        """Call back once each topic has either been refused or exists, and this broker serves the partitions that it
        leads; at the latest after MAX_WAIT_MS."""
        clock = self._context.clock
        deadline_ms = clock.now_ms() + MAX_WAIT_MS

        def check(interval_ms: float = FIRST_CHECK_MS) -> None:
            now_ms = clock.now_ms()
            if now_ms >= deadline_ms or all(map(self._is_settled, names)):
                callback()
            else:
                next_ms = min(now_ms + interval_ms, deadline_ms)
                clock.call_at(next_ms, lambda: check(2.0 * interval_ms))

        check()

    def _is_settled(self, name: str) -> bool:
        context = self._context
        topic = context.metadata.image.topic_by_name(name)
        if topic is None:
            return context.topic_creation.is_refused(name)
        return all(
            partition.leader != context.settings.broker_id
            or context.partitions.is_served(PartitionId(topic.id, number))
            for number, partition in topic.partitions.items()
        )
