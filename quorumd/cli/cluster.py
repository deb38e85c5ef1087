"""`quorumd cluster`: a local cluster for a first look, for development and for tests."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from quorumd.cli import metrics_view, options
from quorumd.cli.client_security import use_client_security
from quorumd.cli.command_group import CommandGroup
from quorumd.cli.format.initial_features import bootstrap_content, feature_options
from quorumd.cli.local_cluster import HOST, LocalCluster, LocalNode, default_content
from quorumd.cli.metrics_view import MetricsView
from quorumd.cli.output import JsonObject, Progress, columns, print_json, progress
from quorumd.cli.status import fetch_node_views, render
from quorumd.errors import QuorumdError

ELECTION_TIMEOUT_S = 15.0
POLL_S = 0.1
VIEW_TIMEOUT_MS = 2000.0

_directory = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Keep the cluster's files in this directory.",
)


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Start, inspect and stop a cluster on this machine.

    \b
    Examples:
      quorumd cluster up --dir run/demo                  # three nodes, until Ctrl-C
      quorumd cluster up --dir run/demo --detach         # return once a leader is elected
      quorumd cluster status --dir run/demo
      quorumd cluster down --dir run/demo
    """


@cluster.command()
@_directory
@click.option("--nodes", type=click.IntRange(1, 99), help="Run this many nodes.  [default: 3]")
@click.option(
    "--base-port", type=click.IntRange(1, 65300), help="Use this port + i for node i.  [default: 9192]"
)
@click.option("--brokers", is_flag=True, help="Run a broker in every node of a new cluster.")
@click.option("--secure", is_flag=True, help="Set up TLS, SCRAM users and an authorizer in a new cluster.")
@feature_options
@click.option("--detach", is_flag=True, help="Return once a leader is elected and leave the nodes running.")
def up(
    directory: Path,
    nodes: int | None,
    base_port: int | None,
    brokers: bool,
    secure: bool,
    release: str | None,
    features: Sequence[tuple[str, int]],
    detach: bool,
) -> None:
    """Create the cluster if it does not exist, start its stopped nodes and show its state.

    Node i listens on 127.0.0.1 at the base port + i and serves metrics at the base port + 100 + i. With --brokers
    it serves producers and consumers at the base port + 200 + i. With --secure all clients use that port; the
    command creates a certificate authority, certificates and the user admin, and prints the first commands.
    Without --detach the nodes run until Ctrl-C. Exit code 1 if there is no leader within 15 s.

    \b
    Examples:
      quorumd cluster up --dir run/demo
      quorumd cluster up --dir run/kafka --brokers --secure
      quorumd cluster up --dir run/five --nodes 5 --base-port 9300 --detach
      quorumd cluster up --dir run/old --release-version 4.1 --feature share.version=1
    """
    has_features = release is not None or features
    initial = partial(bootstrap_content, release, features) if has_features else default_content
    initial(())
    local = LocalCluster.open_or_plan(directory, nodes, base_port, brokers or None, secure or None)
    if has_features:
        local.check_is_new()
    stopped = [node for node in local.nodes if node.pid() is None]
    if not stopped:
        click.echo(f"all {len(local.nodes)} nodes are already running")
    local.check_addresses(stopped)
    local.create(initial)
    with stop_signals_as_interrupt():
        try:
            started = start_nodes(local, stopped)
            click.echo(f"{status_table(local)}\n{client_commands(local)}")
            if not detach:
                click.echo("running until Ctrl-C")
                wait_for_exit(local, started.values())
        except KeyboardInterrupt:
            stop(local)
            if detach:
                raise
        except BaseException:
            if not detach:
                stop(local)
            raise


def start_nodes(local: LocalCluster, stopped: Sequence[LocalNode]) -> dict[int, subprocess.Popen[bytes]]:
    """Start nodes, and wait until there is a leader and brokers serve clients. Raises QuorumdError."""
    started = {node.id: local.start(node) for node in stopped}
    with progress("starting") as show:
        wait_for_leader(local, started, show)
        wait_for_brokers(local)
    return started


@cluster.command()
@_directory
@options.output
def status(directory: Path, output: str) -> None:
    """Show every node's process and, like `quorumd status`, how running nodes see the quorum.

    Exit code 1 unless all nodes are running and agree on a leader.

    \b
    Examples:
      quorumd cluster status --dir run/demo
      quorumd cluster status --dir run/demo --output json | jq '.[] | select(.role == "leader").node'
    """
    local = LocalCluster.open(directory)
    views = fetch_views(local)
    if output == "json":
        print_json([_row(node, views[node.id]) for node in local.nodes])
    else:
        click.echo(status_table(local, views))
        if local.security is not None:
            use_client_security(click.get_current_context(), None, local.security.client_file)
        running = [
            (HOST, node.client_port if local.layout.secure else node.port)
            for node in local.nodes
            if node.pid() is not None
        ]
        if running:
            click.echo(f"\n{render(fetch_node_views(running, VIEW_TIMEOUT_MS, others=False))}")
    if leader_of(list(views.values())) is None:
        raise click.exceptions.Exit(1)


@cluster.command()
@_directory
def down(directory: Path) -> None:
    """Stop every running node and keep its data. A leader hands over leadership before it stops.

    \b
    Example:
      quorumd cluster down --dir run/demo
    """
    local = LocalCluster.open(directory)
    stop(local)


def fetch_views(local: LocalCluster) -> dict[int, MetricsView | None]:
    """The view of the quorum of each node that responds."""
    return {
        node.id: metrics_view.fetch(HOST, node.metrics_port) if node.pid() is not None else None
        for node in local.nodes
    }


def leader_of(views: list[MetricsView | None]) -> int | None:
    """The leader that all nodes report and that has committed a record in its epoch; None without one."""
    leaders = {(view.leader, view.epoch) if view is not None else None for view in views}
    if len(leaders) != 1 or None in leaders:
        return None
    ((leader, _),) = [pair for pair in leaders if pair is not None]
    committed = any(view is not None and view.role == "leader" and view.high_watermark > 0 for view in views)
    return leader if leader >= 0 and committed else None


def wait_for_leader(local: LocalCluster, started: dict[int, subprocess.Popen[bytes]], show: Progress) -> int:
    """Wait until all nodes agree on a leader and return it. Raises QuorumdError with the last log lines."""
    deadline = time.monotonic() + ELECTION_TIMEOUT_S
    while time.monotonic() < deadline:
        exited = [node for node in local.nodes if node.id in started and started[node.id].poll() is not None]
        if exited:
            codes = ", ".join(
                f"node {node.id} exited with code {started[node.id].returncode}" for node in exited
            )
            raise QuorumdError(f"{codes}; {_log_tails(exited)}")
        views = list(fetch_views(local).values())
        leader = leader_of(views)
        if leader is not None:
            return leader
        responding = sum(view is not None for view in views)
        show(
            f"{responding} of {len(views)} nodes are up"
            + (", electing a leader" if responding == len(views) else "")
        )
        time.sleep(POLL_S)
    raise QuorumdError(f"no leader within {ELECTION_TIMEOUT_S:.0f} s; {_log_tails(local.nodes)}")


def wait_for_brokers(local: LocalCluster) -> None:
    """Wait until every node of a cluster with brokers serves clients. Raises QuorumdError."""
    deadline = time.monotonic() + ELECTION_TIMEOUT_S
    missing = local.nodes if local.layout.brokers else []
    while missing := [node for node in missing if not metrics_view.is_ready(HOST, node.metrics_port)]:
        if time.monotonic() >= deadline:
            raise QuorumdError(
                f"brokers do not serve clients after {ELECTION_TIMEOUT_S:.0f} s; {_log_tails(missing)}"
            )
        time.sleep(POLL_S)


def wait_for_exit(local: LocalCluster, started: Iterable[subprocess.Popen[bytes]]) -> None:
    """Wait for nodes to stop and restart, report each change, and raise QuorumdError once no node is running. Ctrl-C
    raises KeyboardInterrupt."""
    running = {node.id for node in local.nodes}
    while running:
        time.sleep(POLL_S)
        for process in started:
            process.poll()  # reaps it, which only its parent can do
        now = {node.id for node in local.nodes if node.pid() is not None}
        for node in local.nodes:
            if node.id in running - now:
                click.echo(f"node {node.id} stopped; {_log_tails([node])}", err=True)
            if node.id in now - running:
                click.echo(f"node {node.id} is running again", err=True)
        running = now
    raise QuorumdError("all nodes have stopped")


def stop(local: LocalCluster) -> None:
    """Stop the running nodes and print their ids."""
    with progress("stopping", only_on_terminal=True):
        stopped = local.stop(lambda text: click.echo(text, err=True))
    names = ", ".join(str(node.id) for node in stopped)
    click.echo(f"stopped: node {names}" if stopped else "no node was running")


def client_commands(local: LocalCluster) -> str:
    """The addresses for clients, and the first commands for a secure cluster."""
    servers = f"bootstrap servers: {local.bootstrap}"
    if local.security is None:
        return servers
    client_file = local.security.client_file
    to = f"--bootstrap-server {local.bootstrap} --command-config {client_file}"
    commands = [
        f"quorumd status {to}",
        f"quorumd users add alice {to}",
        f"quorumd acls add --principal User:alice --resource topic --name orders --operation read {to}",
        f"quorumd tokens create --renewer User:alice --max-lifetime 1d {to}",
    ]
    if local.layout.brokers:
        commands += [f"kafka-topics --create --topic orders {to}", f"kafka-acls --list {to}"]
    return "\n".join([servers, "commands of the user admin:", *(f"  {each}" for each in commands)])


def status_table(local: LocalCluster, views: dict[int, MetricsView | None] | None = None) -> str:
    """The state of all nodes as columns."""
    views = fetch_views(local) if views is None else views
    rows = [list(_row(node, views[node.id]).values()) for node in local.nodes]
    header = ["Node", "Address", "Pid", "State", "Role", "Epoch", "HighWatermark", "LogEndOffset"]
    return columns(header, [["-" if cell is None else cell for cell in row] for row in rows])


def _row(node: LocalNode, view: MetricsView | None) -> JsonObject:
    pid = node.pid()
    state = "stopped" if pid is None else "running" if view is not None else "not responding"
    known = asdict(view) if view is not None else {}
    return {
        "node": node.id,
        "address": f"{HOST}:{node.port}",
        "pid": pid,
        "state": state,
        "role": known.get("role"),
        "epoch": known.get("epoch"),
        "highWatermark": known.get("high_watermark"),
        "logEndOffset": known.get("log_end_offset"),
    }


def _log_tails(nodes: list[LocalNode]) -> str:
    tails = "\n".join(
        "\n".join([f"{node.log}:", *(f"  {line}" for line in node.log_tail())]) for node in nodes
    )
    return f"last lines of the log:\n{tails}"


@contextmanager
def stop_signals_as_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt on the first SIGTERM or SIGINT, also if a shell that started this command in the
    background ignores SIGINT. Later ones are ignored in the block, so that they cannot leave nodes running: a
    terminal sends Ctrl-C to `make` and to its command, and `make` passes SIGTERM on."""

    is_interrupted = False

    def interrupt(number: int, frame: object) -> None:
        nonlocal is_interrupted
        if not is_interrupted:
            is_interrupted = True
            raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
