"""`make bench` measures the following parts:

    commit            committed writes of three quorumd daemons, a three-node etcd and the bare disk
    simulator         speed of the simulator
    tls               committed writes of daemons with TLS between nodes, and without
    before            committed writes of this tree and of an earlier commit; only with --before or --only
    replacement       cost of replacing all voters for writes
    snapshots         cost of building, loading and fetching a snapshot of a million configs
    controller        ISR changes and the creation of partitions
    kafka-controllers quorumd's controllers compared with stock controllers of Kafka
    partitions        a million partitions on one node
    million           a million partitions on three nodes, compared with stock controllers of Kafka
    large-log         a restart of all nodes with 300,000 partitions
    soak              an hour of changes at a fixed rate; only with --only
    brokers           producing and consuming, compared with stock brokers of Kafka
    pipeline-decode   decoding a log without Spark
    pipeline-source   reading a log through Spark
    pipeline-audit    auditing the copies of a log
    pipeline-history  writing the history of a log to Parquet
    pipeline-plan     planning reassignments of a million partitions
    pipeline-million  commands on a log of a million partitions
    pipeline-start    time to the first result of a command

A run uses one machine and one file system. In the part commit, both clusters stay up and are loaded in turns
(A B A B), with 1, 16, 64 and 256 writes in flight, so that other load affects both; ratios are those of adjacent
runs. The best number of connections is determined first, for each system and number of writes in flight.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console

from scripts.bench import (
    brokers,
    etcd,
    kafka_controllers,
    large_log,
    million,
    partitions,
    pipeline_audit,
    pipeline_decode,
    pipeline_history,
    pipeline_million,
    pipeline_plan,
    pipeline_source,
    pipeline_start,
    simulator,
    snapshots,
    soak,
)
from scripts.bench.before import environment_of, is_compiled_package, measure_before
from scripts.bench.brokers import BrokerReport, measure_brokers
from scripts.bench.controller import ControllerReport, measure_controller
from scripts.bench.disk import measure_appends
from scripts.bench.etcd import EtcdCluster
from scripts.bench.kafka_controllers import KafkaControllersReport, measure_kafka_controllers
from scripts.bench.large_log import LargeLogReport, measure_large_log
from scripts.bench.million import MillionReport, measure_million
from scripts.bench.pairs import PairedReport
from scripts.bench.partitions import PartitionReport, measure_partitions
from scripts.bench.pipeline_audit import AuditReport, measure_audit
from scripts.bench.pipeline_decode import DecodeReport, measure_decode
from scripts.bench.pipeline_history import HistoryReport, measure_history
from scripts.bench.pipeline_million import CommandsReport, measure_commands
from scripts.bench.pipeline_plan import Case, PlanReport, measure_plans
from scripts.bench.pipeline_source import SourceReport, measure_source
from scripts.bench.pipeline_start import StartReport, measure_start
from scripts.bench.processes import BenchError
from scripts.bench.quorumd_cluster import QuorumdCluster, cold_start
from scripts.bench.replacement import ReplacementReport, measure_replacements
from scripts.bench.simulator import Load, SimulatorReport, measure_simulator
from scripts.bench.snapshots import SnapshotReport, measure_snapshots
from scripts.bench.soak import SoakReport, measure_soak
from scripts.bench.summary import Level, Report, Run
from scripts.bench.tls import measure_tls
from scripts.log_generator import LogShape

BUILD = Path("build/bench")
INTERPRETED = "interpreted"
COMPILED = Path("build/compiled")
VALUE_BYTES = 200
IN_FLIGHT = (1, 16, 64, 256)
CONNECTIONS = (1, 4, 16)
TRIAL_SECONDS = 1.0
COLD_STARTS = 3
COMMIT, TLS, SIMULATOR, REPLACEMENT = "commit", "tls", "simulator", "replacement"
BEFORE, SOAK = "before", "soak"
SNAPSHOTS = "snapshots"
CONTROLLER, PARTITIONS, LARGE_LOG, BROKERS = "controller", "partitions", "large-log", "brokers"
KAFKA_CONTROLLERS, MILLION = "kafka-controllers", "million"
PIPELINE_DECODE, PIPELINE_AUDIT, PIPELINE_HISTORY = "pipeline-decode", "pipeline-audit", "pipeline-history"
PIPELINE_PLAN, PIPELINE_SOURCE, PIPELINE_START = "pipeline-plan", "pipeline-source", "pipeline-start"
PIPELINE_MILLION = "pipeline-million"
PARTS = (
    COMMIT,
    TLS,
    BEFORE,
    SIMULATOR,
    REPLACEMENT,
    SNAPSHOTS,
    CONTROLLER,
    KAFKA_CONTROLLERS,
    PARTITIONS,
    MILLION,
    LARGE_LOG,
    SOAK,
    BROKERS,
    PIPELINE_DECODE,
    PIPELINE_SOURCE,
    PIPELINE_AUDIT,
    PIPELINE_HISTORY,
    PIPELINE_PLAN,
    PIPELINE_MILLION,
    PIPELINE_START,
)
RESULTS = BUILD / "commit.json"

AnyReport = (
    Report
    | PairedReport
    | SimulatorReport
    | ReplacementReport
    | SnapshotReport
    | ControllerReport
    | KafkaControllersReport
    | PartitionReport
    | MillionReport
    | LargeLogReport
    | SoakReport
    | BrokerReport
    | DecodeReport
    | SourceReport
    | AuditReport
    | HistoryReport
    | PlanReport
    | CommandsReport
    | StartReport
)
RunOf = Callable[[int, int, int, float], Run]


class Sizes(NamedTuple):
    """The size of each part."""

    loads: Sequence[Load] = simulator.LOADS
    configs: int = snapshots.RECORDS
    topics: int = partitions.TOPICS
    million: million.Case = million.Case()
    large_log: int = large_log.TOPICS
    soak: soak.Case = soak.Case()
    brokers: Sequence[brokers.Case] = brokers.CASES
    kafka_controllers: kafka_controllers.Case = kafka_controllers.Case()
    with_kafka: bool = True
    decoded: int = pipeline_decode.RECORDS
    dumped: int = pipeline_decode.DUMPED_RECORDS
    decodings: int = pipeline_decode.REPEAT
    read: int = pipeline_source.RECORDS
    read_on_cores: Sequence[int] = pipeline_source.CORES
    audited: Mapping[int, int] = pipeline_audit.RECORDS
    history: int = pipeline_history.RECORDS
    plans: Sequence[Case] = pipeline_plan.CASES
    commands: LogShape = pipeline_million.SHAPE
    starts: int = pipeline_start.ROUNDS


SHORT = Sizes(
    loads=[replace(load, safety_ms=500.0, seeds=1) for load in simulator.LOADS[:2]],
    configs=2_000,
    topics=20,
    million=million.SHORT_CASE,
    large_log=3,
    soak=soak.SHORT_CASE,
    brokers=brokers.SHORT_CASES,
    kafka_controllers=kafka_controllers.SHORT_CASE,
    with_kafka=False,
    decoded=4_000,
    dumped=1_000,
    decodings=1,
    read=20_000,
    read_on_cores=(2,),
    audited={32: 20_000},
    history=20_000,
    plans=[Case(2_000, 12, 2, 1, 60.0)],
    commands=pipeline_million.SHORT_SHAPE,
    starts=1,
)
SECONDS, SHORT_SECONDS = 10.0, 0.5


class Plan(NamedTuple):
    """The settings of a benchmark run."""

    directory: Path
    package: str
    seconds: float
    soak_seconds: float
    rounds: int
    sizes: Sizes
    audit_records: int | None
    audit_linked: bool
    before: str = "HEAD"

    @property
    def is_compiled(self) -> bool:
        return self.package != INTERPRETED


@click.command()
@click.option(
    "--seconds", type=float, help="Run each load of each system for this time. [default: 10; the soak: 3600]"
)
@click.option("--rounds", default=5, show_default=True, help="Run each load this often and report medians.")
@click.option(
    "--only", type=click.Choice(PARTS), multiple=True, help="Measure only this part; may be repeated."
)
@click.option("--before", metavar="COMMIT", help="Measure the part before with this commit. [default: HEAD]")
@click.option("--require-targets", is_flag=True, help="Exit with 1 if a target was missed.")
@click.option(
    "--interpreted", is_flag=True, help="Measure the sources instead of the output of `make compile`."
)
@click.option(
    "--audit-records",
    type=int,
    help="Audit this number of records, at 32 per batch, such as 1000000000. [default: 45000000]",
)
@click.option("--audit-linked", is_flag=True, help="Audit five copies that are hard links to the same files.")
@click.option(
    "--short", is_flag=True, help="Check in seconds that the parts work; the figures are meaningless."
)
def main(
    seconds: float | None,
    rounds: int,
    only: tuple[str, ...],
    before: str | None,
    require_targets: bool,
    interpreted: bool,
    audit_records: int | None,
    audit_linked: bool,
    short: bool,
) -> None:
    """Measure, print tables, and update build/bench/commit.json, keeping the figures of other parts.

    For a quick run use --seconds 3 --rounds 1.
    """
    console = Console(width=110)
    parts = only or [part for part in PARTS if part != SOAK and (part != BEFORE or before)]
    directory, results = (BUILD / "short", BUILD / "short.json") if short else (BUILD, RESULTS)

    def echo(text: str) -> None:
        console.print(f"[dim]{text}[/dim]")

    try:
        if COMMIT in parts or CONTROLLER in parts:
            etcd.check_installed()
        package = choose_package(Path.cwd() if interpreted else COMPILED.resolve())
        console.print(f"quorumd: {package}")
        if short:
            seconds, rounds = SHORT_SECONDS, 1
        plan = Plan(
            directory,
            package,
            seconds or SECONDS,
            seconds or soak.SECONDS,
            rounds,
            SHORT if short else Sizes(),
            audit_records,
            audit_linked,
            before or "HEAD",
        )
        reports = [MEASURES[part](plan, echo) for part in MEASURES if part in parts]
    except BenchError as error:
        console.print(f"error: {error}", markup=False, style="red")
        sys.exit(1)
    for report in reports:
        report.write_json(results)
        report.print(console)
    console.print(f"written to {results}")
    if require_targets and any(report.missed() for report in reports):
        sys.exit(1)


def measure_commits(
    directory: Path, package: str, seconds: float, rounds: int, echo: Callable[[str], None]
) -> Report:
    """Run `measure` in a directory that is deleted afterwards, unless it fails."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    report = measure(directory.resolve(), package, seconds, rounds, echo)
    shutil.rmtree(directory)
    return report


def choose_package(directory: Path) -> str:
    """Make all child processes import quorumd from `directory`; return a description of it. Raises BenchError."""
    if not (directory / "quorumd").is_dir():
        raise BenchError(f"there is no quorumd in {directory}; run `make compile`, or use --interpreted")
    os.environ.update(environment_of(directory))
    return (
        "compiled, as pip install and the image give it" if is_compiled_package(os.environ) else INTERPRETED
    )


def measure(
    directory: Path, package: str, seconds: float, rounds: int, echo: Callable[[str], None]
) -> Report:
    """Measure the part commit. Raises BenchError; all started processes are stopped in any case."""
    echo("bare disk")
    disk = measure_appends(directory, min(seconds, 3))
    echo("cold starts")
    starts = [cold_start(directory / f"cold-{i}") for i in range(COLD_STARTS)]
    echo("starting three etcd members and three quorumd daemons")
    theirs = EtcdCluster(directory / "etcd")
    try:
        ours = QuorumdCluster(directory / "quorumd")
        try:
            levels = [_measure_level(n, theirs.run, ours.run, seconds, rounds, echo) for n in IN_FLIGHT]
            ours.check_replicas(VALUE_BYTES)
            memory = {process.name: process.resident_mib() for process in ours.processes}
        finally:
            ours.stop()
    finally:
        theirs.stop()
    return Report(_machine(), package, disk, levels, memory, starts)


def _measure_level(
    in_flight: int, theirs: RunOf, ours: RunOf, seconds: float, rounds: int, echo: Callable[[str], None]
) -> Level:
    level = Level(in_flight)
    etcd_connections = _best_connections(theirs, in_flight)
    quorumd_connections = _best_connections(ours, in_flight)
    for turn in range(rounds):
        level.etcd.append(theirs(VALUE_BYTES, in_flight, etcd_connections, seconds))
        level.quorumd.append(ours(VALUE_BYTES, in_flight, quorumd_connections, seconds))
        etcd_rate, quorumd_rate = level.etcd[-1].writes_per_second, level.quorumd[-1].writes_per_second
        echo(
            f"{in_flight} in flight, round {turn + 1} of {rounds}, writes/s: "
            f"etcd {etcd_rate:,.0f}, quorumd {quorumd_rate:,.0f}"
        )
    return level


def _best_connections(run: RunOf, in_flight: int) -> int:
    """Return the number of connections with the highest throughput, determined by short runs."""
    choices = [count for count in CONNECTIONS if count <= in_flight]
    if len(choices) == 1:
        return choices[0]
    rates = {count: run(VALUE_BYTES, in_flight, count, TRIAL_SECONDS).writes_per_second for count in choices}
    return max(choices, key=rates.__getitem__)


def _machine() -> dict[str, object]:
    return {
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "etcd": etcd.version(),
    }


MEASURES: Mapping[str, Callable[[Plan, Callable[[str], None]], AnyReport]] = {
    SIMULATOR: lambda plan, echo: measure_simulator(plan.package, plan.rounds, echo, plan.sizes.loads),
    REPLACEMENT: lambda plan, echo: measure_replacements(
        plan.directory / REPLACEMENT, plan.package, plan.rounds, echo
    ),
    SNAPSHOTS: lambda plan, echo: measure_snapshots(
        plan.directory / SNAPSHOTS, plan.package, plan.seconds, plan.rounds, echo, plan.sizes.configs
    ),
    CONTROLLER: lambda plan, echo: measure_controller(
        plan.directory / CONTROLLER, plan.package, plan.seconds, plan.rounds, echo
    ),
    KAFKA_CONTROLLERS: lambda plan, echo: measure_kafka_controllers(
        plan.directory / KAFKA_CONTROLLERS,
        plan.package,
        plan.seconds,
        plan.rounds,
        echo,
        plan.sizes.kafka_controllers,
        plan.sizes.with_kafka,
    ),
    PARTITIONS: lambda plan, echo: measure_partitions(
        plan.directory / PARTITIONS, plan.package, echo, plan.sizes.topics
    ),
    MILLION: lambda plan, echo: measure_million(
        plan.directory / MILLION, plan.package, echo, plan.sizes.million, plan.sizes.with_kafka
    ),
    LARGE_LOG: lambda plan, echo: measure_large_log(
        plan.directory / LARGE_LOG, plan.package, echo, plan.sizes.large_log
    ),
    SOAK: lambda plan, echo: measure_soak(
        plan.directory / SOAK, plan.package, plan.soak_seconds, echo, plan.sizes.soak
    ),
    BROKERS: lambda plan, echo: measure_brokers(
        plan.directory / BROKERS,
        plan.package,
        plan.seconds,
        plan.rounds,
        echo,
        plan.sizes.brokers,
        plan.sizes.with_kafka,
    ),
    PIPELINE_DECODE: lambda plan, echo: measure_decode(
        plan.directory / PIPELINE_DECODE,
        plan.package,
        echo,
        plan.sizes.decoded,
        plan.sizes.dumped,
        plan.sizes.decodings,
    ),
    PIPELINE_SOURCE: lambda plan, echo: measure_source(
        plan.directory / PIPELINE_SOURCE,
        plan.package,
        plan.rounds,
        echo,
        plan.sizes.read,
        plan.sizes.read_on_cores,
    ),
    PIPELINE_AUDIT: lambda plan, echo: measure_audit(
        plan.directory / PIPELINE_AUDIT,
        plan.rounds,
        echo,
        plan.audit_records,
        plan.audit_linked,
        plan.sizes.audited,
    ),
    PIPELINE_HISTORY: lambda plan, echo: measure_history(
        plan.directory / PIPELINE_HISTORY, plan.rounds, echo, plan.sizes.history
    ),
    PIPELINE_PLAN: lambda plan, echo: measure_plans(plan.package, plan.rounds, echo, plan.sizes.plans),
    PIPELINE_MILLION: lambda plan, echo: measure_commands(
        plan.directory / PIPELINE_MILLION, plan.rounds, echo, plan.sizes.commands
    ),
    PIPELINE_START: lambda plan, echo: measure_start(
        plan.directory / PIPELINE_START, plan.package, echo, plan.sizes.starts
    ),
    TLS: lambda plan, echo: measure_tls(plan.directory / TLS, plan.package, plan.seconds, plan.rounds, echo),
    BEFORE: lambda plan, echo: measure_before(
        plan.directory / BEFORE,
        plan.package,
        plan.before,
        plan.is_compiled,
        plan.seconds,
        plan.rounds,
        echo,
    ),
    COMMIT: lambda plan, echo: measure_commits(
        plan.directory / "tmp", plan.package, plan.seconds, plan.rounds, echo
    ),
}
"""Parts in the order of their measurement."""

if __name__ == "__main__":
    main()
