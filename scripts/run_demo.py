#!/usr/bin/env python3
"""`make run`: three nodes on this machine, their status, and a commit by a stock client.

The cluster is in run/demo and is recreated each time. It runs until Ctrl-C.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

import click
import kafka
from kafka.admin import ConfigResource, KafkaAdminClient

from quorumd.cli.cluster import stop, stop_signals_as_interrupt, wait_for_exit, wait_for_leader
from quorumd.cli.local_cluster import HOST, METRICS_PORT_OFFSET, LocalCluster, is_free
from quorumd.cli.output import progress
from quorumd.errors import ConfigError, QuorumdError

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
DIRECTORY = Path("run/demo")
QUORUMD = ".venv/bin/quorumd"
NODES = 3
BASE_PORTS = range(9192, 9292, 10)
REPETITIONS = 10
KEY, VALUE = "consumer.session.timeout.ms", "45000"


def main() -> int:
    """Run the demonstration from the root of the checkout; return the exit code."""
    with stop_signals_as_interrupt():
        try:
            run(fresh_cluster())
        except KeyboardInterrupt:
            return 0
        except QuorumdError as error:
            click.echo(f"error: {error}", err=True)
            return error.exit_code
    return 0


def run(cluster: LocalCluster) -> None:
    """Run the cluster until a signal or the end of its nodes."""
    try:
        started = show(cluster)
        click.echo("\nThe cluster runs until Ctrl-C.")
        wait_for_exit(cluster, started)
    finally:
        click.echo()
        stop(cluster)


def fresh_cluster() -> LocalCluster:
    """Create an empty cluster in DIRECTORY on free ports, after stopping one that an earlier run left behind."""
    if (DIRECTORY / "cluster.json").exists():
        left_behind = LocalCluster.open(DIRECTORY)
        if any(node.pid() is not None for node in left_behind.nodes):
            click.echo(f"a cluster of an earlier run is still running in {DIRECTORY}")
            stop(left_behind)
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    for base_port in BASE_PORTS:
        ports = [port for i in range(NODES) for port in (base_port + i, base_port + METRICS_PORT_OFFSET + i)]
        if all(is_free(port) for port in ports):
            if base_port != BASE_PORTS[0]:
                click.echo(f"a port from {BASE_PORTS[0]} on is in use; using ports from {base_port} on")
            cluster = LocalCluster.open_or_plan(DIRECTORY, NODES, base_port)
            cluster.create()
            return cluster
    raise ConfigError(
        f"no {NODES} free ports from {BASE_PORTS[0]} to {BASE_PORTS[-1] + NODES}; stop the processes that use them"
    )


def show(cluster: LocalCluster) -> list[subprocess.Popen[bytes]]:
    """Start the cluster, print its status, and return its processes."""
    begun = time.monotonic()
    with progress(f"starting {NODES} nodes in {DIRECTORY}") as echo:
        started = {node.id: cluster.start(node) for node in cluster.nodes}
        leader = wait_for_leader(cluster, started, echo)
    click.echo(
        f"{NODES} nodes are running and node {leader} leads, {time.monotonic() - begun:.1f} s after the start."
    )
    server = cluster.bootstrap.partition(",")[0]
    show_command("cluster", "status", "--dir", str(DIRECTORY))
    show_command("quorum", "describe", "--bootstrap-server", server)
    show_command("quorum", "describe", "replication", "--bootstrap-server", server)
    show_commit(cluster)
    heading("Try next, in another terminal")
    for purpose, line in next_commands(cluster, leader):
        click.echo(f"  {purpose:<19}  {line}")
    return list(started.values())


def show_command(*arguments: str) -> None:
    """Run one quorumd command and show it with its output."""
    heading(" ".join(("$", QUORUMD, *arguments)))
    done = subprocess.run(
        [sys.executable, "-m", "quorumd", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise QuorumdError(done.stderr.strip().removeprefix("error: "))
    click.echo(done.stdout.rstrip())


def show_commit(cluster: LocalCluster) -> None:
    """Change a config with a stock client and read it back, several times."""
    heading(f"A stock client, kafka-python {kafka.__version__}, changes a config and reads it back")
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    orders = [ConfigResource("GROUP", "orders")]
    orders_set = [ConfigResource("GROUP", "orders", {KEY: VALUE})]
    try:
        changed, commit_ms = timed(lambda: client.alter_configs(orders_set, raise_on_unknown=False))
        read, read_ms = timed(lambda: client.describe_configs(orders))
    finally:
        client.close()
    outcome = changed["group"]["orders"]
    click.echo(f"  alter_configs     group orders, {KEY}={VALUE}: {outcome}")
    value = read["group"]["orders"][KEY]["value"]
    click.echo(f"  describe_configs  group orders, {KEY} is {value}")
    click.echo(
        f"  median of {REPETITIONS}: {commit_ms:.1f} ms per change, flushed by a majority before the response; "
        f"{read_ms:.1f} ms per read"
    )


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """Call REPETITIONS times; return the last result and the median in milliseconds. The first call may connect."""
    took_ms = []
    for _ in range(REPETITIONS):
        begun = time.perf_counter()
        result = call()
        took_ms.append((time.perf_counter() - begun) * 1000)
    return result, median(took_ms)


def next_commands(cluster: LocalCluster, leader: int) -> list[tuple[str, str]]:
    """Return (purpose, command line) pairs."""
    server = "--bootstrap-server " + cluster.bootstrap.partition(",")[0]
    node = cluster.nodes[leader]
    return [
        ("change a config", f"{QUORUMD} configs set {server} --type group --name orders {KEY}=50000"),
        ("kill the leader", f"kill -9 {node.pid()}"),
        ("see who leads now", f"{QUORUMD} cluster status --dir {DIRECTORY}"),
        ("start it again", f"{QUORUMD} cluster up --dir {DIRECTORY} --detach"),
        ("inspect the log", f"{QUORUMD} log dump {DIRECTORY}/node-{leader}/data"),
        ("commits per second", f"{QUORUMD} bench {server} --duration 2s"),
        ("a simulated cluster", f"{QUORUMD} simulate --seed 7"),
        ("the metrics", f"curl -s http://{HOST}:{node.metrics_port}/metrics"),
    ]


def heading(text: str) -> None:
    """Print a bold line."""
    click.secho(f"\n{text}", bold=True)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
