"""`quorumd bench`: measure the write throughput and latency of a running cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.output import JsonObject, columns, print_json, progress
from quorumd.errors import RequestFailed

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.client.admin import AdminClient
    from quorumd.client.load import LoadReport

COLUMNS = (
    "InFlight",
    "Connections",
    "WritesPerSecond",
    "P50Ms",
    "P99Ms",
    "MaxMs",
    "LongestPauseMs",
    "Failed",
)


@click.command()
@options.bootstrap_server
@click.option(
    "--in-flight",
    type=options.positive_integers,
    metavar="N,N,...",
    default="1,16,64,256",
    show_default=True,
    help="Measure with each of these numbers of concurrent writes.",
)
@click.option(
    "--connections",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Spread the writes over this many connections.",
)
@click.option(
    "--value-bytes",
    type=click.IntRange(1, 32767),
    default=200,
    show_default=True,
    help="Write values of this size.",
)
@click.option(
    "--duration",
    "seconds",
    type=options.duration,
    default="5s",
    show_default=True,
    metavar="DURATION",
    help="Run each measurement for this long, or until a write succeeds: 5s, 500ms, 2m.",
)
@options.output
def bench(
    servers: Addresses,
    in_flight: tuple[int, ...],
    connections: int,
    value_bytes: int,
    seconds: float,
    output: str,
) -> None:
    """Write configs to the leader as fast as it commits them.

    Each write is one request; the leader responds once a majority has it on disk. Each concurrent write
    changes the config "metrics" of its own client-metrics resource "quorumd-load-..."; the resources are
    deleted at the end. The load generator uses part of this machine's CPU. If the leader changes, the load
    moves to the new one: Failed counts writes without a response, LongestPauseMs is the longest time without
    a successful write. Ctrl-C prints the results so far; a second Ctrl-C leaves the resources behind.

    A stock Kafka controller can be measured too. It handles one request per connection at a time, so use as
    many connections as concurrent writes.

    \b
    Examples:
      quorumd bench --bootstrap-server 127.0.0.1:9192
      quorumd bench --bootstrap-server 127.0.0.1:9192 --in-flight 64 --connections 64 --output json
    """
    import asyncio

    import uvloop

    run_admin(servers, lambda admin: admin.find_leader())
    reports: list[LoadReport] = []
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        is_complete = runner.run(_run(servers, in_flight, connections, value_bytes, seconds, reports))
    rows = [_row(report) for report in reports]
    if output == "json":
        print_json(rows)
    elif rows:
        click.echo(columns(COLUMNS, [_cells(row) for row in rows]))
    if not is_complete:
        raise KeyboardInterrupt


async def _run(
    servers: Addresses,
    levels: tuple[int, ...],
    connections: int,
    value_bytes: int,
    seconds: float,
    reports: list[LoadReport],
) -> bool:
    """Append a report per level. Returns whether every level was measured completely."""
    import asyncio

    from quorumd.client.admin import AdminClient
    from quorumd.client.load import Load

    written: set[str] = set()
    with progress("starting") as show:
        async with AdminClient(servers, timeout_ms=options.timeout_s() * 1000) as admin:

            async def leader() -> tuple[str, int]:
                found = await admin.find_leader()
                show(f"{in_flight} in flight for {seconds:g} s at the leader, {found.host}:{found.port}")
                return found.host, found.port

            try:
                for in_flight in levels:
                    load = Load(
                        leader,
                        in_flight=in_flight,
                        seconds=seconds,
                        connections=connections,
                        value_bytes=value_bytes,
                        written=written,
                    )
                    try:
                        await load.run()
                    except asyncio.CancelledError:
                        if load.report().writes:
                            reports.append(load.report())
                        return False
                    reports.append(load.report())
            finally:
                show("deleting the written resources")
                await _remove(admin, written)
    return True


async def _remove(admin: AdminClient, written: set[str]) -> None:
    """Delete what the load wrote, or warn how to."""
    from quorumd.client.load import remove_written

    try:
        await remove_written(admin, written)
    except RequestFailed as error:
        click.echo(
            f"warning: {len(written)} client-metrics resources such as {min(written)} are left behind: {error}; run "
            "again with the same --in-flight and --connections to delete them",
            err=True,
        )


def _cells(row: JsonObject) -> list[str]:
    return [
        str(row["inFlight"]),
        str(row["connections"]),
        f"{row['writesPerSecond']:,.0f}",
        *(f"{row[key]:,.2f}" for key in ("p50Ms", "p99Ms", "maxMs", "longestPauseMs")),
        f"{row['failed']:,}",
    ]


def _row(report: LoadReport) -> JsonObject:
    return {
        "inFlight": report.in_flight,
        "connections": report.connections,
        "valueBytes": report.value_bytes,
        "seconds": round(report.seconds, 3),
        "writes": report.writes,
        "writesPerSecond": round(report.writes_per_second, 1),
        "p50Ms": round(report.percentile_ms(50), 3),
        "p99Ms": round(report.percentile_ms(99), 3),
        "maxMs": round(report.percentile_ms(100), 3),
        "longestPauseMs": round(report.longest_pause_ms, 3),
        "failed": report.failed,
        "reconnections": report.reconnections,
    }
