"""The request of a client that pays for the work of a node: its `request_percentage` quota counts the time.

A task that begins while a request is handled continues in later iterations of the event loop, for the same request.
"""

from __future__ import annotations

from typing import Protocol


class Payer(Protocol):
    """A request whose time is counted."""

    def resume(self) -> None:
        """Begin to count time."""

    def pause(self) -> None:
        """Count the time since `resume`."""


class CurrentPayer:
    """The request that is being handled, None outside of handlers and without quotas. Shared by a whole node."""

    __slots__ = ("payer",)

    def __init__(self) -> None:
        self.payer: Payer | None = None
