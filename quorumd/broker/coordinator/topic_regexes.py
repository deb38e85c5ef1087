"""Regular expressions in subscriptions of the consumer protocol (KIP-848), and when they are evaluated.

The coordinator keeps the topics that each expression of a group matches, as records; its members share them. A
heartbeat begins an evaluation if one is due; its result arrives later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from quorumd.broker.coordinator.consumer_group import ConsumerGroup
from quorumd.broker.coordinator.effects import Times
from quorumd.broker.settings.coordinator_settings import GroupSettings


class TopicRegex(Protocol):
    """A compiled regular expression, whose time to match is linear in the length of the text."""

    @property
    def size(self) -> int:
        """The number of its instructions, to which the time to match is proportional at most."""

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""


RegexCompiler = Callable[[str], TopicRegex]
"""Compiles an expression. Raises RequestError with INVALID_REGULAR_EXPRESSION."""


class RegexEvaluation(NamedTuple):
    """The expressions of a group that are to be evaluated. `may_describe`: whether the member whose heartbeat began
    this may describe a topic; other topics do not match."""

    group: str
    patterns: Sequence[str]
    may_describe: Callable[[str], bool]


class EvaluatedRegexes(NamedTuple):
    """The names of the topics that each expression of a group matches in the metadata up to `version`."""

    group: str
    topics: Mapping[str, frozenset[str]]
    version: int


class _Evaluated(NamedTuple):
    version: int
    at_ms: float


class RegexSchedule:
    """Decides when the expressions of each group are evaluated: all at once, so that the group rebalances once."""

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._running: set[str] = set()
        self._last: dict[str, _Evaluated] = {}

    def begin(self, group: ConsumerGroup, created_offset: int, times: Times) -> list[str]:
        """Return the expressions to evaluate now, if an evaluation is due: an expression has no topics yet, topics
        were created since the last one, or it was long ago. `created_offset`: the offset of the metadata at which a
        topic was last created."""
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
        """Make the next evaluation due at once: the topics of the last one were not recorded, or are not needed."""
        self._last.pop(group_id, None)
