"""The error codes in a response, at every level."""

from __future__ import annotations

from collections.abc import Iterator

from quorumd.protocol.wire import MessageStruct


def errors_in(response: MessageStruct) -> Iterator[tuple[int, str | None]]:
    """Yield every error code other than 0 with the message beside it, outermost first."""
    for name in response.__slots__:
        value = getattr(response, name)
        if name == "error_code":
            if value:
                yield value, getattr(response, "error_message", None)
        elif isinstance(value, list) and value and isinstance(value[0], MessageStruct):
            for item in value:
                yield from errors_in(item)
