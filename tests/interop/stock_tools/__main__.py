"""`make stock-tools`: what Kafka's own command-line tools make of quorumd's plans and logs, and how fast.

Needs Java and, for the first run, Maven, which gets Kafka's jars into build/stock-tools. Each claim is tried
against real processes; a table says what came of it. Exit code 1 unless all hold.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console

from tests.interop.stock_tools.brokers import ORDERS, Brokers
from tests.interop.stock_tools.claims import HOLDS, Verdict, judge, show
from tests.interop.stock_tools.kafka_brokers import kafka_brokers
from tests.interop.stock_tools.logs import Logs
from tests.interop.stock_tools.plans import Plans
from tests.interop.stock_tools.speed import Speed
from tests.interop.stock_tools.stock_plan import StockPlan
from tests.interop.stock_tools.tools import StockTools, ToolsMissing, stock_tools
from tests.interop.stock_tools.traffic import Traffic
from tests.support.fixtures import running_cluster

JARS = Path("build/stock-tools")
BROKERS = (101, 102, 103, 104)
RACKS = ("a", "b", "c", "c")
DAEMONS = "metadata.log.segment.bytes=64KiB\nbroker.session.timeout.ms=15000\n"
"""Small segments, so that there are several, and a broker that is killed is soon taken for gone."""
PARTS = ("brokers", "speed")


def tell(text: str) -> None:
    click.echo(text, err=True)


@click.command()
@click.option("--kafka", default="4.1.0", show_default=True, help="The version of the tools.")
@click.option("--only", type=click.Choice(PARTS), multiple=True, help="Of these only; all by default.")
@click.option("--records", default=6_000_000, show_default=True, help="Of the log that is decoded.")
@click.option("--rounds", default=3, show_default=True, help="In which both are measured, in turns.")
def main(kafka: str, only: tuple[str, ...], records: int, rounds: int) -> None:
    """Try quorumd's claims about Kafka's own tools."""
    try:
        tools = stock_tools(JARS, kafka)
    except ToolsMissing as missing:
        sys.exit(str(missing))
    console = Console()
    verdicts: list[Verdict] = []
    folder = Path(tempfile.mkdtemp(prefix="quorumd-stock-tools-"))
    speed = Speed(tools, folder, records, rounds, tell)
    parts: dict[str, Callable[[], list[Verdict]]] = {
        "brokers": lambda: on_brokers(tools, folder),
        "speed": lambda: judge([("speed", speed.steps())], tell),
    }
    for part in only or PARTS:
        verdicts += parts[part]()
    speed.show(console)
    show(verdicts, f"quorumd and the tools of Kafka {kafka}", console)
    broken = sum(verdict.outcome != HOLDS for verdict in verdicts)
    if broken:
        sys.exit(f"{broken} of {len(verdicts)} claims do not hold; what was left is in {folder}")
    shutil.rmtree(folder)


def on_brokers(tools: StockTools, folder: Path) -> list[Verdict]:
    """The log that is read at the end is the one of all that happened before."""
    racks = dict(zip(BROKERS, RACKS, strict=True))
    with (
        running_cluster(folder / "cluster", extra=DAEMONS) as cluster,
        kafka_brokers(tools, cluster, racks, folder) as started,
    ):
        bootstrap = ",".join(broker.address for broker in started)
        traffic = Traffic(tools, bootstrap, ORDERS)
        brokers = Brokers(tools, cluster, started, traffic)
        trial, plan = (StockPlan(tools, cluster, bootstrap, folder / name) for name in ("trial", "plan"))
        logs = Logs(tools, cluster, folder)
        verdicts = judge(
            [
                ("brokers", brokers.beginning()),
                ("plans", Plans(cluster, trial, plan, traffic).steps()),
                ("brokers", brokers.steps()),
                ("logs", logs.steps_at_work()),
            ],
            tell,
        )
    return verdicts + judge([("logs", logs.steps())], tell)


if __name__ == "__main__":
    main()
