"""Matches the regular expressions of groups against the names of all topics, in slices."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from quorumd.broker.coordinator.topic_regexes import EvaluatedRegexes, RegexCompiler, RegexEvaluation
from quorumd.broker.metadata.broker_metadata import BrokerMetadata
from quorumd.errors import RequestError
from quorumd.ports import Clock
from quorumd.protocol.routes import SlicedTask

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
            self._begin(RegexTask(evaluation, names, self._metadata.offset, self.compile, done))

        self._clock.call_soon(begin)


class RegexTask:
    """A `SlicedTask` whose unit is the time for a few instructions of an expression on one name.

    An expression that does not compile has no result, so its group keeps the topics that were recorded by the broker
    that accepted it.
    """

    def __init__(
        self,
        evaluation: RegexEvaluation,
        names: Sequence[str],
        version: int,
        compile_regex: RegexCompiler,
        done: Callable[[EvaluatedRegexes], None],
    ) -> None:
        self.is_done = False
        self._evaluation = evaluation
        self._names = names
        self._version = version
        self._compile = compile_regex
        self._done = done
        self._found: dict[str, frozenset[str]] = {}
        self._steps = self._run()

    def advance(self, budget: int) -> int:
        """See `SlicedTask`."""
        units = 0
        while units < budget:
            step = next(self._steps, None)
            if step is None:
                self.is_done = True
                self._done(EvaluatedRegexes(self._evaluation.group, self._found, self._version))
                break
            units += step
        return units

    def _run(self) -> Iterator[int]:
        """Iterate over the units of each step."""
        for pattern in self._evaluation.patterns:
            try:
                regex = self._compile(pattern)
            except RequestError as error:
                logger.warning("group %s: %s", self._evaluation.group, error)
                continue
            units = 1 + regex.size // SIZE_PER_UNIT
            yield units
            found = []
            for name in self._names:
                is_match = regex.matches(name)
                yield units
                if is_match:
                    yield AUTHORIZATION_UNITS
                    if self._evaluation.may_describe(name):
                        found.append(name)
            self._found[pattern] = frozenset(found)
