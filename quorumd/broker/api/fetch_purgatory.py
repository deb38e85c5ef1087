"""The purgatory of fetches that wait for records; changes of their partitions complete them, without polling."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from quorumd.broker.partitions.hosted_partition import HostedPartition
from quorumd.broker.replication.replica import Transition
from quorumd.controller.partition import PartitionId
from quorumd.ports import Clock, Timer


class DelayedFetch(Protocol):
    """A delayed fetch, which holds no records while it waits."""

    def mark_changed(self, partition: PartitionId) -> None:
        """Read this partition again before the response."""

    def may_be_complete(self) -> bool:
        """Whether there may be enough records now, according to a cheap upper bound."""

    def complete(self, *, is_forced: bool) -> bool:
        """Read, and respond if there are enough records or if `is_forced`; return whether a response was sent."""


class _Entry:
    __slots__ = ("is_forced", "partitions", "timer")

    def __init__(self, partitions: tuple[PartitionId, ...], timer: Timer) -> None:
        self.partitions = partitions
        self.timer = timer
        self.is_forced = False


class FetchPurgatory:
    """A `PartitionListener` that completes delayed fetches.

    After changes, a fetch is evaluated once per iteration of the event loop, even if many of its partitions changed.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._delayed: dict[DelayedFetch, _Entry] = {}
        self._watchers: dict[PartitionId, dict[DelayedFetch, None]] = {}
        self._woken: dict[DelayedFetch, None] = {}
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._delayed)

    def watch(self, fetch: DelayedFetch, partitions: Iterable[PartitionId], max_wait_ms: float) -> None:
        """Complete a fetch once these partitions have enough records, at the latest after `max_wait_ms`."""
        deadline_ms = self._clock.now_ms() + max_wait_ms
        timer = self._clock.call_at(deadline_ms, self._expiry_of(fetch))
        entry = self._delayed[fetch] = _Entry(tuple(partitions), timer)
        for each in entry.partitions:
            self._watchers.setdefault(each, {})[fetch] = None

    def _expiry_of(self, fetch: DelayedFetch) -> Callable[[], None]:
        def expire() -> None:
            if fetch in self._delayed:
                self.remove(fetch)
                fetch.complete(is_forced=True)

        return expire

    def remove(self, fetch: DelayedFetch) -> None:
        """Forget a fetch, if it is delayed."""
        entry = self._delayed.pop(fetch, None)
        if entry is None:
            return
        entry.timer.cancel()
        self._woken.pop(fetch, None)
        for each in entry.partitions:
            watchers = self._watchers[each]
            del watchers[fetch]
            if not watchers:
                del self._watchers[each]

    def appended(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""
        self._wake(hosted.id)

    def high_watermark_advanced(self, hosted: HostedPartition) -> None:
        """See `PartitionListener`."""
        self._wake(hosted.id)

    def changed(self, hosted: HostedPartition, transition: Transition) -> None:
        """See `PartitionListener`. A change of leader is an error for the fetcher; a change of the ISR is not."""
        if transition is Transition.STILL_LEADS:
            return
        for fetch in self._watchers.get(hosted.id, ()):
            self._delayed[fetch].is_forced = True
        self._wake(hosted.id)

    def _wake(self, partition: PartitionId) -> None:
        watchers = self._watchers.get(partition)
        if watchers is None:
            return
        for fetch in watchers:
            fetch.mark_changed(partition)
        self._woken.update(watchers)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.call_soon(self._complete_woken)

    def _complete_woken(self) -> None:
        self._is_scheduled = False
        woken, self._woken = self._woken, {}
        for fetch in woken:
            entry = self._delayed.get(fetch)
            if entry is None:
                continue
            is_forced = entry.is_forced
            if (is_forced or fetch.may_be_complete()) and fetch.complete(is_forced=is_forced):
                self.remove(fetch)
