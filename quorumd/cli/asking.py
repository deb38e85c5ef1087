"""How commands ask a running cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

from quorumd.cli.output import progress
from quorumd.errors import RequestFailed

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.client.admin import AdminClient

T = TypeVar("T")

PATIENCE_MS = 10_000
"""Long enough for the election after a leader died, short enough for a mistyped address."""


def ask(
    servers: Addresses,
    question: Callable[[AdminClient], Awaitable[T]],
    patience_ms: float = PATIENCE_MS,
    *,
    silent: bool = False,
) -> T:
    """The answer to `question`. Raises RequestFailed when there is none in time, or an error for one.

    `patience_ms` bounds each request. `silent`: the caller shows what is going on.
    """

    import asyncio

    async def asked() -> T:
        from quorumd.client.admin import AdminClient

        async with AdminClient(servers, timeout_ms=patience_ms) as admin:
            return await question(admin)

    names = ", ".join(f"{host}:{port}" for host, port in servers)
    with nullcontext() if silent else progress(f"asking {names}", only_on_terminal=True):
        try:
            return asyncio.run(asked())
        except RequestFailed as failure:
            if failure.error_code:
                raise
            raise RequestFailed(f"{failure}; is {names} right, and does a node run there?") from None
