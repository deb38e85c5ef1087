"""`quorumd dev`: one Kafka for development and tests, in one process."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from quorumd.cli.format.command import format_data_directories
from quorumd.cli.imports import importing

if TYPE_CHECKING:
    from quorumd.config import Settings
    from quorumd.node.node import Node

HOST = "127.0.0.1"
EXAMPLE = (
    'python -c "from kafka import KafkaProducer; '
    "print(KafkaProducer(bootstrap_servers='{address}').send('greetings', b'hello').get(10))\""
)


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="Serve clients on this port of 127.0.0.1; 0 picks a free port.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the data in this directory.  [default: a temporary directory, removed at the end]",
)
@click.option(
    "--partitions",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Create topics with this many partitions unless a client sets the number.",
)
def dev(port: int, directory: Path | None, partitions: int) -> None:
    """Run one Kafka broker, without a JVM and without configuration, until Ctrl-C.

    The process is broker and controller. Topics are created when a client first uses them. Nothing is replicated, so
    use this for development and tests.

    \b
    Examples:
      quorumd dev
      quorumd dev --port 0 --partitions 3
      quorumd dev --dir run/kafka
    """
    with importing():
        from quorumd.cli.format.initial_controllers import founders_for
        from quorumd.runtime.daemon import run

    with ExitStack() as stack:
        is_temporary = directory is None
        if directory is None:
            directory = Path(stack.enter_context(TemporaryDirectory(prefix="quorumd-dev-")))
        settings = dev_settings(directory.resolve() / "data", port, partitions)
        if not (directory / "data").exists():
            format_data_directories(settings, founders=founders_for(settings, True, None, False))
        place = f"data in {directory}{', removed at the end' if is_temporary else ''}"

        def on_ready(node: Node) -> None:
            assert node.broker is not None
            address = f"{HOST}:{node.broker.bound_port}"
            click.echo(f"bootstrap servers: {address} ({place}; Ctrl-C stops)")
            click.echo(f"try: {EXAMPLE.format(address=address)}")

        raise click.exceptions.Exit(run(settings, on_ready))


def dev_settings(data: Path, port: int, partitions: int) -> Settings:
    """The settings of a node with both roles, for one machine."""
    from quorumd.config import Settings

    return Settings.model_validate(
        {
            "node_id": "1",
            "process_roles": "broker,controller",
            "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:0",
            "controller_listener_names": "CONTROLLER",
            "quorum_voters": "1",
            "log_directories": str(data),
            "num_partitions": str(partitions),
            "group_initial_rebalance_delay_ms": "0",
            "offsets_topic_partitions": "4",
            "offsets_topic_replication_factor": "1",
            "transaction_log_partitions": "4",
            "transaction_log_replication_factor": "1",
            "transaction_log_min_isr": "1",
            "log_level": "WARNING",
        }
    )
