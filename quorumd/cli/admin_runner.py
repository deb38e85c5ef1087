"""Run an admin operation of a command against a cluster."""

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
"""Error codes of requests that failed because there is no leader or no response."""

DIAGNOSIS_TIMEOUT_MS = 2000.0
"""How long each node may take to respond to the diagnosis of a missing leader."""


def run_admin(
    servers: Addresses,
    operation: Callable[[AdminClient], Awaitable[T]],
    limit_ms: float | None = None,
    *,
    silent: bool = False,
) -> T:
    """Run `operation` with a new client and return its result. Raises RequestFailed on an error or a timeout.

    `limit_ms` bounds each request; by default --timeout does. With `silent` the caller shows the progress itself.
    """
    import asyncio

    timeout_ms = options.timeout_s() * 1000 if limit_ms is None else limit_ms

    async def run() -> T:
        from quorumd.client.admin import AdminClient

        async with AdminClient(servers, timeout_ms=timeout_ms) as admin:
            return await operation(admin)

    names = ", ".join(f"{host}:{port}" for host, port in servers)
    with nullcontext() if silent else progress(f"waiting for {names}", only_on_terminal=True):
        try:
            return asyncio.run(run())
        except RequestFailed as failure:
            if failure.error_code not in NO_LEADER_ERRORS:
                raise
            raise RequestFailed(f"{failure}\n{_diagnose(servers, timeout_ms)}", failure.error_code) from None


def _diagnose(servers: Addresses, timeout_ms: float) -> str:
    """The view of the quorum of each node in --bootstrap-server and of the nodes they report, one line each."""
    from quorumd.cli.status import fetch_node_views

    views = fetch_node_views(servers, min(timeout_ms, DIAGNOSIS_TIMEOUT_MS))
    lines = [
        f"  {view.summary}" for view in views if view.description is not None or view.discovered_from is None
    ]
    if all(view.description is None for view in views):
        lines.append(
            "  no node responds; check the addresses, that the nodes are running, and that their listener has the "
            "security.protocol of --command-config"
        )
    return "\n".join(lines)
