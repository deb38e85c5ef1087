"""Which errors an answer tells, wherever in it: for counting them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from quorumd.protocol.wire import MessageStruct


def errors_in(response: Any) -> Iterator[int]:
    """Every error code that is not 0, that of the whole and those of the items."""
    for name in response.__slots__:
        value = getattr(response, name)
        if name == "error_code":
            if value:
                yield value
        elif isinstance(value, list) and value and isinstance(value[0], MessageStruct):
            for item in value:
                yield from errors_in(item)
