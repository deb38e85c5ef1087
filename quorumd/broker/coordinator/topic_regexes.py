"""Regular expressions in subscriptions of the consumer protocol (KIP-848), and when they are evaluated.

The coordinator records the topics that each expression of a group matches; the members of the group share them. A
heartbeat begins an evaluation if one is due; the result arrives later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from quorumd.broker.coordinator.consumer_group import ConsumerGroup
from quorumd.broker.coordinator.effects import Times
from quorumd.broker.settings.coordinator_settings import GroupSettings


class TopicRegex(Protocol):
    """A compiled regular expression, which matches in time linear in the length of the text."""

    @property
    def size(self) -> int:
        """The number of instructions; the time to match is at most proportional to it."""

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""


RegexCompiler = Callable[[str], TopicRegex]
"""Compiles an expression. Raises RequestError with INVALID_REGULAR_EXPRESSION."""


class RegexEvaluation(NamedTuple):
    """The expressions of a group to evaluate."""

    group: str
    patterns: Sequence[str]
    may_describe: Callable[[str], bool]
    """Whether the member whose heartbeat began the evaluation may describe a topic; other topics do not match."""


class EvaluatedRegexes(NamedTuple):
    """The names of the topics that each expression of a group matches in the metadata up to `version`."""

    group: str
    topics: Mapping[str, frozenset[str]]
    version: int


class _Evaluated(NamedTuple):
    version: int
    at_ms: float


class RegexSchedule:
    """Decides when the expressions of a group are evaluated: all together, so that the group rebalances once."""

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._running: set[str] = set()
        self._last: dict[str, _Evaluated] = {}

    def begin(self, group: ConsumerGroup, created_offset: int, times: Times) -> list[str]:
        """Return the expressions to evaluate now, none if no evaluation is due.

        An evaluation is due if an expression has never been evaluated, if a topic has been created since the last
        evaluation (at `created_offset` of the metadata), or if the refresh interval has passed. Evaluations are at
        least the minimum interval apart.
        """
        patterns = group.regex_subscribers.keys()
        if not patterns:
            self.forget(group.id)
        if not patterns or group.id in self._running:
            return []
        last = self._last.get(group.id)
        if last is not None:
            age_ms = times.now_ms - last.at_ms
            is_stale = (
                patterns != group.regexes.keys()
                or created_offset > last.version
                or age_ms >= self._settings.consumer_regex_refresh_interval_ms
            )
            if not is_stale or age_ms < self._settings.consumer_regex_min_interval_ms:
                return []
        self._running.add(group.id)
        return sorted(patterns)

    def end(self, group_id: str, version: int, times: Times) -> bool:
        """Record the end of an evaluation; return False if this coordinator did not begin it."""
        if group_id not in self._running:
            return False
        self._running.discard(group_id)
        self._last[group_id] = _Evaluated(version, times.now_ms)
        return True

    def forget(self, group_id: str) -> None:
        """Make the next evaluation due at once: the result of the last one was not recorded, or is not needed."""
        self._last.pop(group_id, None)
