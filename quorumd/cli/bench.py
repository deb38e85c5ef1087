"""`quorumd bench`: how many writes a running cluster commits, and how long one waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quorumd.cli import options
from quorumd.cli.asking import ask
from quorumd.cli.output import columns, print_json, progress

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.client.load import LoadReport


@click.command()
@options.bootstrap_server
@click.option(
    "--in-flight",
    type=options.positive_integers,
    metavar="N,N,...",
    default="1,16,64,256",
    show_default=True,
    help="Writes kept going.",
)
@click.option(
    "--connections", type=click.IntRange(1), default=1, show_default=True, help="To spread them over."
)
@click.option(
    "--value-bytes", type=click.IntRange(0, 32767), default=200, show_default=True, help="Size of a value."
)
@click.option(
    "--seconds", type=click.FloatRange(0.1), default=5.0, show_default=True, help="Length of each run."
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

    Each write is one request, answered once a majority has it on disk. The configs are those of the client-
    metrics resource "quorumd-load"; the last one stays behind. The generator takes its share of this
    machine's CPU.

    \b
    Examples:
      quorumd bench --bootstrap-server 127.0.0.1:9192
      quorumd bench --bootstrap-server 127.0.0.1:9192 --in-flight 64 --connections 4 --output json
    """
    import uvloop

    leader = ask(servers, lambda admin: admin.find_leader())
    reports = uvloop.run(_run(leader.host, leader.port, in_flight, connections, value_bytes, seconds))
    rows = [_row(report) for report in reports]
    if output == "json":
        print_json(rows)
        return
    header = ["IN FLIGHT", "CONNECTIONS", "WRITES/S", "P50 MS", "P99 MS", "MAX MS"]
    cells = [
        [
            row["inFlight"],
            row["connections"],
            f"{row['writesPerSecond']:,.0f}",
            f"{row['p50Ms']:.2f}",
            f"{row['p99Ms']:.2f}",
            f"{row['maxMs']:.2f}",
        ]
        for row in rows
    ]
    click.echo(columns(header, cells))


async def _run(
    host: str, port: int, levels: tuple[int, ...], connections: int, value_bytes: int, seconds: float
) -> list[LoadReport]:
    from quorumd.client.load import measure

    reports = []
    with progress("starting") as show:
        for in_flight in levels:
            show(f"{in_flight} in flight for {seconds:g} s at the leader, {host}:{port}")
            report = await measure(
                host,
                port,
                in_flight=in_flight,
                seconds=seconds,
                connections=connections,
                value_bytes=value_bytes,
            )
            reports.append(report)
    return reports


def _row(report: LoadReport) -> dict[str, Any]:
    return {
        "inFlight": report.in_flight,
        "connections": report.connections,
        "valueBytes": report.value_bytes,
        "seconds": report.seconds,
        "writes": report.writes,
        "writesPerSecond": round(report.writes_per_second, 1),
        "p50Ms": round(report.percentile_ms(50), 3),
        "p99Ms": round(report.percentile_ms(99), 3),
        "maxMs": round(report.percentile_ms(100), 3),
    }
