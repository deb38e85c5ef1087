"""Merges the responses to the parts of a request (see `request_splitting`)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Final

from quorumd.node.sessions.request_splitting import RequestPart, SplitRule
from quorumd.protocol.wire import Message, MessageStruct

_ERROR_FIELDS: Final = ("error_code", "error_message")


class MergedResponse:
    """The response to a request, from those to its parts in their order."""

    def __init__(self, rule: SplitRule) -> None:
        self._path = rule.response_path
        self._whole: Message | None = None
        self._is_error = False

    def add(self, part: RequestPart, response: Message) -> None:
        """Add the response to the next part. One with a top-level error is the result of the whole request."""
        path = self._path
        if self._is_error:
            return
        if getattr(response, "error_code", 0):
            self._whole, self._is_error = response, True
            return
        whole = self._whole
        if whole is None:
            whole = self._whole = copy(response)
            if path:
                setattr(whole, path[0], [])
        if path:
            _append_merged(getattr(whole, path[0]), getattr(response, path[0]), path[1:], part.continued)
        if hasattr(whole, "throttle_time_ms"):  # not WriteTxnMarkers, which only brokers send
            whole.throttle_time_ms = max(whole.throttle_time_ms, getattr(response, "throttle_time_ms", 0))

    def result(self) -> Message:
        """Return the merged response of at least one part."""
        assert self._whole is not None
        return self._whole


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
