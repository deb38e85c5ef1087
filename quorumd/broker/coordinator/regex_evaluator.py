"""Matches the regular expressions of groups against the names of all topics, in slices."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from typing import Final

from quorumd.broker.coordinator.topic_regexes import EvaluatedRegexes, RegexCompiler, RegexEvaluation
from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.errors import RequestError
from quorumd.ports import Clock
from quorumd.protocol.routes import SlicedTask
from quorumd.protocol.stepped_task import SteppedTask

logger = logging.getLogger("quorumd.broker")

SIZE_PER_UNIT: Final = 4
"""Instructions of a compiled expression per unit of work."""
AUTHORIZATION_UNITS: Final = 10
"""Units of work to check the rights of a client on a topic."""


class RegexEvaluator:
    """Evaluates the expressions of all groups of this broker; `begin` runs a task in slices."""

    def __init__(
        self,
        clock: Clock,
        begin: Callable[[SlicedTask], None],
        compile_regex: RegexCompiler,
        metadata: BrokerMetadata,
    ) -> None:
        self.compile = compile_regex
        self._clock = clock
        self._begin = begin
        self._metadata = metadata

    def evaluate(self, evaluation: RegexEvaluation, done: Callable[[EvaluatedRegexes], None]) -> None:
        """Evaluate the expressions of a group after the current callback, and call `done`."""

        def begin() -> None:
            names = list(self._metadata.image.topic_ids)
            self._begin(regex_task(evaluation, names, self._metadata.offset, self.compile, done))

        self._clock.call_soon(begin)


def regex_task(
    evaluation: RegexEvaluation,
    names: Sequence[str],
    version: int,
    compile_regex: RegexCompiler,
    done: Callable[[EvaluatedRegexes], None],
) -> SteppedTask[dict[str, frozenset[str]]]:
    """Return a task whose unit is the time for a few instructions of an expression on one name."""
    return SteppedTask(
        _matches(evaluation, names, compile_regex),
        lambda found: done(EvaluatedRegexes(evaluation.group, found, version)),
    )


def _matches(
    evaluation: RegexEvaluation, names: Sequence[str], compile_regex: RegexCompiler
) -> Generator[int, None, dict[str, frozenset[str]]]:
    """Return the names that each expression matches; yields the units of each step.

    An expression that does not compile has no result, so its group keeps the topics that were recorded by the broker
    that accepted it.
    """
    matched: dict[str, frozenset[str]] = {}
    for pattern in evaluation.patterns:
        try:
            regex = compile_regex(pattern)
        except RequestError as error:
            logger.warning("group %s: %s", evaluation.group, error)
            continue
        units = 1 + regex.size // SIZE_PER_UNIT
        yield units
        found = []
        for name in names:
            is_match = regex.matches(name)
            yield units
            if is_match:
                yield AUTHORIZATION_UNITS
                if evaluation.may_describe(name):
                    found.append(name)
        matched[pattern] = frozenset(found)
    return matched
