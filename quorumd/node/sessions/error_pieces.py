"""Divides large requests that are refused as a whole into pieces, whose errors are built one piece at a time."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from itertools import chain
from typing import Final

from quorumd.node.sessions.request_splitting import RequestPart, SplitRule, parts_of_lists
from quorumd.node.settings import MAX_PARTITIONS_PER_PART
from quorumd.protocol.wire import Message

ERRORS_AT_ONCE: Final = 50
"""Items whose errors are built in a fraction of a millisecond."""


def pieces_of(message: Message, rule: SplitRule) -> Iterator[RequestPart] | None:
    """The pieces of a request, whatever the rule says about what belongs together; None if it has no more items than
    a part, whose errors are built in a millisecond."""
    lists = [path for path in (rule.request_path, (rule.also,) if rule.also else ()) if path]
    wholes = [_only(message, path[0], lists) for path in lists]
    plain = [SplitRule(path, rule.response_path) for path in lists]
    named = [pair for pair in zip(wholes, plain, strict=True) if getattr(pair[0], pair[1].request_path[0])]
    if all(parts_of_lists(whole, each, MAX_PARTITIONS_PER_PART) is None for whole, each in named):
        return None
    return chain.from_iterable(_pieces(whole, each) for whole, each in named)


def _only(message: Message, field: str, lists: list[tuple[str, ...]]) -> Message:
    """Return the request with one of its lists only."""
    only = copy(message)
    for path in lists:
        if path[0] != field:
            setattr(only, path[0], [])
    return only


def _pieces(whole: Message, rule: SplitRule) -> Iterator[RequestPart]:
    return parts_of_lists(whole, rule, ERRORS_AT_ONCE) or iter([RequestPart(whole)])
