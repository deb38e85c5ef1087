"""Regular expressions of subscriptions, with RE2, whose time is linear in the length of the text."""

from __future__ import annotations

from typing import Final, Protocol

from quorumd.errors import ErrorCode, RequestError
from quorumd.text import escaped

MAX_LENGTH: Final = 4_096
MAX_MEMORY_BYTES: Final = 1 << 16
"""Maximum memory per expression, for a program of some thousand instructions and a cache. The size of the cache also
bounds the time of a match."""
_SHOWN: Final = 100


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


def compile_regex(pattern: str) -> Re2Regex:
    """Compile an expression, as `RegexCompiler`.

    Raises RequestError if it is invalid or too long, or if the package of RE2 is not installed.
    """
    try:
        import re2  # here, since most nodes never need it
    except ImportError:
        raise _refused(
            "regular expressions in subscriptions need the package google-re2 on the brokers: "
            "pip install 'quorumd[regex]'"
        ) from None
    if len(pattern) > MAX_LENGTH:
        raise _refused(
            f"the regular expression has {len(pattern)} characters; at most {MAX_LENGTH} are supported"
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
