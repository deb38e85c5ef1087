"""Regular expressions of subscriptions, with RE2, whose time is linear in the length of the text."""

from __future__ import annotations

import re
from typing import Final, Protocol

from quorumd.errors import ErrorCode, RequestError
from quorumd.text import escaped

MAX_SIZE: Final = 4_096
"""Maximum `estimated_size` of an expression. It bounds the time to compile one, which the event loop waits for."""
UNICODE_SIZE: Final = 500
"""The size of a character beyond ASCII or a Unicode class, which RE2 expands to hundreds of ranges. Names of topics
are ASCII, so that no subscription needs many of them."""
MAX_MEMORY_BYTES: Final = 20 * 1024
"""Maximum memory per expression, for a program of about a thousand instructions and a cache. The size of the cache
also bounds the time of a match."""
_SHOWN: Final = 100
_EXPANDED: Final = re.compile(r"\\[pPx]|[^\x00-\x7f]|\{([0-9]{1,4})(?:,([0-9]{0,4}))?\}")
"""What RE2 expands before it knows the size of the program: Unicode, and counted repetitions."""


class _Compiled(Protocol):
    programsize: int

    def fullmatch(self, text: str) -> object: ...


class Re2Regex:
    """A compiled expression, as `TopicRegex`."""

    __slots__ = ("_compiled",)

    def __init__(self, compiled: _Compiled) -> None:
        self._compiled = compiled

    @property
    def size(self) -> int:
        """See `TopicRegex`."""
        return self._compiled.programsize

    def matches(self, text: str) -> bool:
        """See `TopicRegex`."""
        return self._compiled.fullmatch(text) is not None


def estimated_size(pattern: str) -> int:
    """Estimate the work to compile an expression: its characters, Unicode and the counts of its repetitions."""
    size = len(pattern)
    for found in _EXPANDED.finditer(pattern):
        least, most = found.groups()
        size += UNICODE_SIZE if least is None else max(int(least), int(most or 0))
    return size


def compile_regex(pattern: str) -> Re2Regex:
    """Compile an expression, as `RegexCompiler`.

    Raises RequestError if it is invalid or too large, or if the package of RE2 is not installed.
    """
    try:
        import re2  # here, since most nodes never need it
    except ImportError:
        raise _refused(
            "regular expressions in subscriptions need the package google-re2 on the brokers: "
            "pip install 'quorumd[regex]'"
        ) from None
    size = estimated_size(pattern)
    if size > MAX_SIZE:
        raise _refused(
            f"the regular expression is too large: its characters, the counts in its repetitions and {UNICODE_SIZE} "
            f"per Unicode class or character beyond ASCII add up to {size}; at most {MAX_SIZE} are supported"
        )
    options = re2.Options()
    options.max_mem = MAX_MEMORY_BYTES
    options.log_errors = False
    try:
        return Re2Regex(re2.compile(pattern, options))
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        shown = pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}..."
        raise _refused(f"'{escaped(shown)}' is not a valid regular expression: {escaped(reason)}") from None


def _refused(text: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REGULAR_EXPRESSION, text)
