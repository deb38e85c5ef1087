"""How commands ask a running cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

from quorumd.cli import options
from quorumd.cli.output import progress
from quorumd.errors import ErrorCode, RequestFailed

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.client.admin import AdminClient

T = TypeVar("T")

NO_LEADER_ERRORS = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""What a request fails with for want of a leader, or of any response."""

DIAGNOSIS_TIMEOUT_MS = 2000.0
"""How long each node may take to say why there is no leader."""


def run_admin(
    servers: Addresses,
    operation: Callable[[AdminClient], Awaitable[T]],
    patience_ms: float | None = None,
    *,
    silent: bool = False,
) -> T:
    """The answer to `question`. Raises RequestFailed when there is none in time, or an error for one.

    `patience_ms` bounds each request; if not given, --timeout does. `silent`: the caller shows what is going on.
    """

    import asyncio

    limit_ms = options.timeout_s() * 1000 if patience_ms is None else patience_ms

    async def asked() -> T:
        from quorumd.client.admin import AdminClient

        async with AdminClient(servers, timeout_ms=limit_ms) as admin:
            return await operation(admin)

    names = ", ".join(f"{host}:{port}" for host, port in servers)
    with nullcontext() if silent else progress(f"asking {names}", only_on_terminal=True):
        try:
            return asyncio.run(asked())
        except RequestFailed as failure:
            if failure.error_code not in NO_LEADER_ERRORS:
                raise
            raise RequestFailed(f"{failure}\n{_diagnose(servers, limit_ms)}", failure.error_code) from None


def _diagnose(servers: Addresses, limit_ms: float) -> str:
    """A line for each node that the user named, and for those that these name: its own view of the quorum."""
    from quorumd.cli.status import fetch_node_views

    views = fetch_node_views(servers, min(limit_ms, DIAGNOSIS_TIMEOUT_MS))
    lines = [
        f"  {view.summary}" for view in views if view.description is not None or view.discovered_from is None
    ]
    if all(view.description is None for view in views):
        lines.append("  no node responds: check the addresses, and that a node runs there")
    return "\n".join(lines)
