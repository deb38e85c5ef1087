"""`make stock-tools`: Kafka's own command-line tools, brokers and controllers with quorumd, and their speed.

    --only verbs        every verb of the tools on 4.0 to 4.4 in both voter styles; writes docs/stock-kafka.md
    --only authorizer   decisions of Kafka's StandardAuthorizer for 200,000 requests, compared with quorumd's
    --only brokers      plans, killed brokers, and the resulting log, read by both sides
    --only controllers  a stock controller among the voters while leaders are killed
    --only directories  moves between log directories of quorumd's brokers, and cordons
    --only takeover     Kafka's clients on a broker of quorumd, whose directory a stock broker takes over
    --only mixed        brokers of Kafka and of quorumd that follow each other, and take over coordinators
    --only kills        VerifiableProducer while leaders are killed
    --only histories    the audit of random histories of stock clusters, which are undamaged
    --only pipeline     the pipeline on a stock cluster that is disturbed for four minutes, also on a Spark master
    --only configs      a stock controller's verdicts on thousands of config changes
    --only security     brokers, tools and clients of two releases with TLS, SASL and ACLs
    --only speed        the time that kafka-dump-log and quorumd need for a log

This needs Java and, for the first run, Maven, which downloads Kafka's jars to build/stock-tools. Each claim is tested
with real processes, and a table shows the verdicts. The exit code is 1 unless all claims hold.

`make test` ends with --short, which runs the parts of seconds to a minute, some of them with small sizes.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console

from tests.interop.stock_tools.authorizer import StockAuthorizer
from tests.interop.stock_tools.brokers import ORDERS, Brokers
from tests.interop.stock_tools.claims import BROKEN, HOLDS, Verdict, judge, show
from tests.interop.stock_tools.configs import RELEASE, Configs
from tests.interop.stock_tools.controllers import Controllers
from tests.interop.stock_tools.coordinator_moves import CoordinatorMoves
from tests.interop.stock_tools.directories import Directories
from tests.interop.stock_tools.kafka_brokers import kafka_brokers
from tests.interop.stock_tools.kafka_controller import KafkaController
from tests.interop.stock_tools.kills import Kills
from tests.interop.stock_tools.logs import Logs, take_snapshots
from tests.interop.stock_tools.matrix import HOLDS as YES
from tests.interop.stock_tools.matrix import NOT_THERE, Style, running_cell
from tests.interop.stock_tools.mixed import Mixed, MixedCluster
from tests.interop.stock_tools.moved_groups import MovedGroups
from tests.interop.stock_tools.moved_transactions import MovedTransactions
from tests.interop.stock_tools.plans import Plans
from tests.interop.stock_tools.results import keep
from tests.interop.stock_tools.secured import SecureCluster
from tests.interop.stock_tools.security import Security
from tests.interop.stock_tools.speed import Speed
from tests.interop.stock_tools.stock_histories import StockHistories
from tests.interop.stock_tools.stock_pipeline import StockPipeline
from tests.interop.stock_tools.stock_plan import StockPlan
from tests.interop.stock_tools.takeover import Takeover
from tests.interop.stock_tools.tool_server import ToolServer
from tests.interop.stock_tools.tools import StockTools, ToolsMissing, stock_tools
from tests.interop.stock_tools.traffic import Traffic
from tests.support.processes.daemons import QUICK
from tests.support.processes.fixtures import running_cluster, without_traceback
from tests.support.processes.log_directories import DirectoryCluster

JARS = Path("build/stock-tools")
BROKERS = (101, 102, 103, 104)
RACKS = ("a", "b", "c", "c")
DAEMONS = "metadata.log.segment.bytes=64KiB\nbroker.session.timeout.ms=15000\n"
"""Small segments, so that the log has several, and a session timeout after which killed brokers are fenced."""
QUICK_REPORTS = "broker.heartbeat.interval.ms=200\n"
"""A short interval, since brokers report cordons in heartbeats."""
PARTS = (
    "authorizer",
    "brokers",
    "configs",
    "controllers",
    "directories",
    "takeover",
    "histories",
    "kills",
    "mixed",
    "pipeline",
    "security",
    "speed",
    "verbs",
)
SHORT = ("authorizer", "configs", "histories", "takeover", "directories", "security")
SHORT_REQUESTS = 5_000
SHORT_HISTORIES = 1
VERSIONS = {"4.0.2": "4.0.2", "4.1.2": "4.1.2", "4.3.1": "4.3.1", "4.4.0": "4.3.1"}
"""Versions of the tools by version of the brokers in the table of verbs: Maven Central has no kafka-tools 4.4.0."""
DEFAULT = "4.3.1"
MIXED = ("4.3.1", "4.4.0")
"""Versions of the stock brokers in clusters with brokers of quorumd, and of stock clusters."""
CONTROLLER = 3


def report(text: str) -> None:
    click.echo(text, err=True)


@click.command()
@click.option(
    "--kafka",
    help=f"Version of Kafka's brokers, clients and tools.  [default: {DEFAULT}; for verbs all versions]",
)
@click.option("--tools", "version", help="Version of the tools, if Maven Central has no tools of --kafka.")
@click.option("--only", type=click.Choice(PARTS), multiple=True, help="Run only this part; may be repeated.")
@click.option(
    "--style",
    type=click.Choice([each.value for each in Style]),
    help="Voter style of the verbs.  [default: both]",
)
@click.option("--seconds", default=60.0, show_default=True, help="Kill leaders for this time.")
@click.option(
    "--records", default=6_000_000, show_default=True, help="Number of records in the log for speed."
)
@click.option(
    "--requests", default=200_000, show_default=True, help="Number of requests to StandardAuthorizer."
)
@click.option("--histories", default=104, show_default=True, help="Number of histories to audit.")
@click.option("--hurt", default=240.0, show_default=True, help="Disturb the stock cluster for this time.")
@click.option("--seed", default=200, show_default=True, help="Seed of the first history, and of pipeline.")
@click.option("--rounds", default=3, show_default=True, help="Number of measurements of each side.")
@click.option("--short", is_flag=True, help=f"Run only {', '.join(SHORT)}, in their short forms.")
def main(
    kafka: str | None,
    version: str | None,
    only: tuple[str, ...],
    style: str | None,
    seconds: float,
    records: int,
    rounds: int,
    requests: int,
    histories: int,
    seed: int,
    hurt: float,
    short: bool,
) -> None:
    """Test quorumd's claims about Kafka's own tools, brokers and controllers."""
    if short:
        only, requests, histories = SHORT, SHORT_REQUESTS, SHORT_HISTORIES
    tools = fetched(kafka or DEFAULT, version)
    console = Console()
    verdicts: list[Verdict] = []
    directory = Path(tempfile.mkdtemp(prefix="quorumd-stock-tools-"))
    speed = Speed(tools, directory, records, rounds, report)
    parts: dict[str, Callable[[], list[Verdict]]] = {
        "authorizer": lambda: judge([("authorizer", StockAuthorizer(tools, requests).steps())], report),
        "brokers": lambda: on_brokers(tools, directory),
        "configs": lambda: judge([("configs", Configs(fetched(RELEASE, None), directory).steps())], report),
        "controllers": lambda: with_a_controller(tools, directory, seconds),
        "directories": lambda: with_two_directories(tools, directory / "directories"),
        "takeover": lambda: with_a_takeover(tools, directory / "takeover"),
        "histories": lambda: judge(
            [("histories", of_stock_clusters(directory, histories, seed).steps())], report
        ),
        "mixed": lambda: with_brokers_of_both(directory),
        "kills": lambda: under_a_producer(tools, directory, seconds),
        "pipeline": lambda: on_a_hurt_cluster(tools, directory / "pipeline", hurt, seed),
        "security": lambda: with_security([fetched(each, None) for each in MIXED], directory),
        "verbs": lambda: table_of_verbs(kafka, version, Style(style) if style else None, directory),
        "speed": lambda: judge([("speed", speed.steps())], report),
    }
    for part in only or PARTS:
        verdicts += parts[part]()
    speed.show(console)
    show(verdicts, f"quorumd and the tools of Kafka {kafka or DEFAULT}", console)
    broken = sum(verdict.outcome != HOLDS for verdict in verdicts)
    if broken:
        sys.exit(f"{broken} of {len(verdicts)} claims do not hold; the logs and data are in {directory}")
    shutil.rmtree(directory)


def of_stock_clusters(directory: Path, histories: int, seed: int) -> StockHistories:
    """Return the claim about histories, for clusters of the versions in MIXED."""
    versions = [fetched(each, None) for each in MIXED]
    return StockHistories(versions, directory / "histories", histories, seed, report)


def with_a_takeover(tools: StockTools, directory: Path) -> list[Verdict]:
    """Run nodes of quorumd and of Kafka on the same directory, one after the other."""
    directory.mkdir()
    takeover = Takeover(tools, directory)
    try:
        return judge([("takeover", takeover.steps())], report)
    finally:
        takeover.stop()


def with_brokers_of_both(directory: Path) -> list[Verdict]:
    """Run nodes of quorumd and brokers of Kafka in one cluster; then move coordinators in another one."""
    releases = [fetched(each, None) for each in MIXED]
    moved = directory / "moved"
    with MixedCluster(releases, moved) as cluster:
        bootstrap, theirs = cluster.bootstrap_servers, cluster.stock
        moves = CoordinatorMoves(bootstrap, cluster.nodes, moved)
        ours = [each for each in cluster.nodes if each not in theirs]
        groups = MovedGroups(bootstrap, moves, ours, theirs)
        transactions = MovedTransactions(releases[-1], bootstrap, moves, ours, theirs)
        verdicts = judge([("coordinators", [*groups.steps(), *transactions.steps()])], report)
    mixed = Mixed(releases, directory / "mixed", report)
    return verdicts + judge([("mixed", mixed.steps())], report)


def with_two_directories(tools: StockTools, directory: Path) -> list[Verdict]:
    """Run three nodes of quorumd with two log directories each."""
    directory.mkdir()
    with DirectoryCluster(directory, 3, QUICK_REPORTS).running() as cluster:
        return judge([("directories", Directories(tools, cluster, directory).steps())], report)


def on_a_hurt_cluster(tools: StockTools, directory: Path, seconds: float, seed: int) -> list[Verdict]:
    """Run the pipeline on one stock cluster, and disturb it for a time."""
    pipeline = StockPipeline(tools, directory, seconds, seed, report)
    try:
        return judge([("pipeline", pipeline.steps())], report)
    finally:
        pipeline.stop()


def on_brokers(tools: StockTools, directory: Path) -> list[Verdict]:
    """Run stock brokers on one cluster; the logs are read at the end."""
    racks = dict(zip(BROKERS, RACKS, strict=True))
    with (
        running_cluster(directory / "cluster", extra=DAEMONS, release=tools.release) as cluster,
        kafka_brokers(tools, cluster, racks, directory) as started,
    ):
        bootstrap = ",".join(broker.address for broker in started)
        traffic = Traffic(tools, bootstrap, ORDERS)
        brokers = Brokers(tools, cluster, started, traffic)
        trial, plan = (StockPlan(tools, cluster, bootstrap, directory / name) for name in ("trial", "plan"))
        logs = Logs(tools, [daemon.partition_directory for daemon in cluster], directory)
        verdicts = judge(
            [
                ("brokers", brokers.beginning()),
                ("plans", Plans(cluster, trial, plan, traffic).steps()),
                ("brokers", brokers.steps()),
                ("logs", [("each node builds a snapshot", lambda: take_snapshots(cluster))]),
            ],
            report,
        )
    return verdicts + judge([("logs", logs.steps())], report)


def why_no_tools() -> str | None:
    """Download the jars that --short needs, unless they exist, and return the reason if this fails."""
    try:
        for release in (DEFAULT, *MIXED):
            stock_tools(JARS, release, VERSIONS[release])
    except ToolsMissing as missing:
        return str(missing)
    return None


def fetched(kafka: str, version: str | None) -> StockTools:
    """Return the brokers and tools of some versions. Exits the process if they cannot be downloaded."""
    try:
        return stock_tools(JARS, kafka, version or VERSIONS.get(kafka, kafka))
    except ToolsMissing as missing:
        sys.exit(str(missing))


def table_of_verbs(
    kafka: str | None, version: str | None, style: Style | None, directory: Path
) -> list[Verdict]:
    """Run the verbs for each column of the table; the results replace the column in the document."""
    verdicts = []
    for release in [kafka] if kafka else VERSIONS:
        tools = fetched(release, version)
        for each in [style] if style else Style:
            column = f"{release} {each}"
            with running_cell(tools, release, each, directory / column.replace(" ", "-")) as cell:
                found = cell.run(report)
            keep(column, found)
            broken = {command: why for command, why in found.items() if why not in (YES, NOT_THERE)}
            verdicts.append(Verdict(column, "verbs", HOLDS, f"{len(found) - len(broken)} of {len(found)}"))
            verdicts += [Verdict(column, command, BROKEN, why) for command, why in broken.items()]
    return verdicts


def under_a_producer(tools: StockTools, directory: Path, seconds: float) -> list[Verdict]:
    """Run VerifiableProducer on three daemons and three stock brokers."""
    racks = dict(zip(BROKERS[:3], RACKS[:3], strict=True))
    with (
        running_cluster(directory / "killed", extra=QUICK, release=tools.release) as cluster,
        kafka_brokers(tools, cluster, racks, directory / "killed") as started,
    ):
        kills = Kills(tools, cluster, started, seconds, directory)
        return judge([("kills", kills.steps())], report)


def with_a_controller(tools: StockTools, directory: Path, seconds: float) -> list[Verdict]:
    """Run two daemons and a stock controller as the voters."""
    with running_cluster(
        directory / "mixed", size=CONTROLLER - 1, extra=QUICK, release=tools.release
    ) as cluster:
        stock = KafkaController(tools, cluster, CONTROLLER, directory / f"controller-{CONTROLLER}")
        try:
            return judge([("controllers", Controllers(cluster, stock, seconds).steps())], report)
        finally:
            stock.stop()


def with_security(releases: list[StockTools], directory: Path) -> list[Verdict]:
    """Run three daemons and a broker of each release with security; the tools are of the first release."""
    tools, newer = releases
    cluster = SecureCluster(directory / "secured", tools.release)
    try:
        cluster.start()
        with without_traceback(cluster), ToolServer(tools) as server:
            security = Security(tools, newer, cluster, server, directory / "secured")
            try:
                return judge([("security", security.steps())], report)
            finally:
                security.stop()
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
