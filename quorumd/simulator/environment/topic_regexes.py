"""Regular expressions of subscriptions in simulated brokers.

They use the standard library's `re`: simulated clients send harmless expressions, and a seed must give the same run
whatever is installed.
"""

from __future__ import annotations

import re

from quorumd.errors import ErrorCode, RequestError


class SimulatedRegex:
    """A compiled expression. Satisfies `TopicRegex`."""

    def __init__(self, pattern: str) -> None:
        self._compiled = re.compile(pattern)
        self.size = len(pattern)

    def matches(self, text: str) -> bool:
        """See `TopicRegex`."""
        return self._compiled.fullmatch(text) is not None


def compile_regex(pattern: str) -> SimulatedRegex:
    """Compile an expression. Satisfies `RegexCompiler`."""
    try:
        return SimulatedRegex(pattern)
    except re.error as error:
        text = f"'{pattern}' is not a valid regular expression: {error}"
        raise RequestError(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from None
