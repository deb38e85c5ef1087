"""Regular expressions of subscriptions: any text is compiled or rejected, and matched in bounded time."""

from __future__ import annotations

from quorumd.errors import RequestError
from quorumd.runtime.topic_regexes import compile_regex
from tests.fuzz.target import Target

TOPICS = ("orders-1", "a" * 249, "aB_.-9" * 41)
TOKENS = (
    b"(",
    b")",
    b"*",
    b"+",
    b"{0,1000}",
    b"{9}",
    b"|",
    b"[^a-z]",
    b"\\pL",
    b".",
    b"(?i)",
    b"^",
    b"$",
    b"\\b",
)


def _corpus() -> list[bytes]:
    patterns = [
        "^orders-.*",
        "a|ab|abc",
        "(a{0,30}){0,30}c",
        "(.*a){100}c",
        r"(?P<x>\pL+)\d{2}[a-c_.-]*?",
        "((a*)*)*b",
    ]
    return [pattern.encode() for pattern in patterns]


def _match(data: bytes) -> None:
    regex = compile_regex(data.decode(errors="replace"))
    assert regex.size > 0
    for topic in TOPICS:
        regex.matches(topic)


TARGETS = (Target("regular expressions", 0.5, _corpus, lambda: _match, (RequestError,), TOKENS),)
