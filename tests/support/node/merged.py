"""The response to a request whose parts have these responses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from quorumd.node.sessions.request_splitting import RequestPart, SplitRule
from quorumd.node.sessions.response_merging import MergedResponse
from quorumd.protocol.wire import Message


def merge(rule: SplitRule, parts: Iterable[RequestPart], responses: Sequence[Message]) -> Any:
    merged = MergedResponse(rule)
    for part, response in zip(parts, responses, strict=True):
        merged.add(part, response)
    return merged.result()
