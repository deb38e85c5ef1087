"""Merges the responses to the parts of a request (see `request_splitting`)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Final

from quorumd.node.sessions.request_splitting import RequestPart, SplitRule
from quorumd.protocol.wire import Message, MessageStruct

_ERROR_FIELDS: Final = ("error_code", "error_message")


def merge(rule: SplitRule, parts: Sequence[RequestPart], responses: Sequence[Message]) -> Message:
    """Merge the responses to the parts. A top-level error of a part is the result of the whole request."""
    for response in responses:
        if getattr(response, "error_code", 0):
            return response
    whole = copy(responses[0])
    path = rule.response_path
    if path:
        items: list[object] = []
        for part, response in zip(parts, responses, strict=True):
            _append_merged(items, getattr(response, path[0]), path[1:], part.continued)
        setattr(whole, path[0], items)
    if hasattr(whole, "throttle_time_ms"):  # not WriteTxnMarkers, which only brokers send
        whole.throttle_time_ms = max(getattr(response, "throttle_time_ms", 0) for response in responses)
    return whole


def _append_merged(
    items: list[object], following: Sequence[object], path: Sequence[str], continued: int
) -> None:
    """Append the following items; the first of them may continue the last item."""
    if continued and path and items and following and _is_same(items[-1], following[0], path[0]):
        _append_merged(getattr(items[-1], path[0]), getattr(following[0], path[0]), path[1:], continued - 1)
        if getattr(following[0], "error_code", 0):
            # Clients match some results by their position: one that failed in a part has its error, no second result.
            for field in _ERROR_FIELDS:
                if hasattr(following[0], field):
                    setattr(items[-1], field, getattr(following[0], field))
        following = following[1:]
    items += following


def _is_same(item: object, other: object, listed: str) -> bool:
    """Whether both items are equal apart from their lists and errors: a response need not contain all items."""
    assert isinstance(item, MessageStruct)
    left_out = (listed, *_ERROR_FIELDS)
    return all(name in left_out or getattr(item, name) == getattr(other, name) for name in item.FIELDS)
