"""Run every client on three nodes that are killed, restarted and reassigned.

    python -m tests.interop.clients --seconds 600

This needs kcat (Debian: apt install kcat). It prints the number of acknowledged records of each writer, and the
violations, such as a record that is not at its acknowledged offset.
"""

from __future__ import annotations

import itertools
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from quorumd.testing import KafkaCluster
from tests.interop.clients.disturbances import Disturbances
from tests.interop.clients.readers import MEMBERS
from tests.interop.clients.trial import Trial, Writer
from tests.interop.clients.writers import WRITERS, Mode

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
KINDS: dict[str, Callable[[Disturbances], str]] = {
    "kill": Disturbances.kill_leader,
    "reassign": Disturbances.reassign,
    "restart": Disturbances.restart_all,
}
NODES = 3
SHOWN = 20
WITHOUT_TRANSACTIONS = ("kcat", "kafka-python")
"""kcat has no transactions. kafka-python 3.0.12 loses its current request if the coordinator refuses the connection,
as a killed node does: `Sender._maybe_send_pending_request` repeats a request only if no node was known for it."""


@click.command()
@click.option("--seconds", default=120.0, show_default=True, help="Disturb the cluster for this time.")
@click.option(
    "--once",
    type=click.Choice(list(KINDS)),
    multiple=True,
    help="Disturb the cluster once in this way, without --seconds; may be repeated.",
)
@click.option(
    "--client", type=click.Choice(list(WRITERS)), multiple=True, help="Run only this writer; may be repeated."
)
@click.option("--shift", default=0, show_default=True, help="Combine modes with other codecs.")
def main(seconds: float, once: tuple[str, ...], client: tuple[str, ...], shift: int) -> None:
    """Run one trial of all clients."""
    directory = Path(tempfile.mkdtemp(prefix="quorumd-clients-"))
    writers = [
        Writer(name, mode, CODECS[(number + shift) % len(CODECS)])
        for number, (name, mode) in enumerate(itertools.product(client or WRITERS, Mode))
        if not (name in WITHOUT_TRANSACTIONS and mode is Mode.TRANSACTIONAL)
    ]
    logging.disable()
    trial = Trial(directory, KafkaCluster(NODES, directory / "cluster"), writers, MEMBERS)
    disturbances = [KINDS[each] for each in once] or _until(time.monotonic() + seconds)
    found = trial.run(disturbances, click.echo)
    for writer, written in trial.written.items():
        others = f"{len(written.aborted)} aborted, {len(written.unknown)} unknown, {dict(written.errors)}"
        click.echo(f"{writer}: {len(written.acknowledged):,} acknowledged, {others}")
    for group in trial.groups:
        click.echo(f"group {group.name}: {len(group.values):,} records, {group.rebalances} assignments")
    if found:
        sys.exit("\n".join([*found[:SHOWN], f"{len(found)} violations; the logs are in {directory}"]))
    shutil.rmtree(directory)


def _until(deadline: float) -> Iterator[Callable[[Disturbances], str]]:
    for kind in itertools.cycle(KINDS.values()):
        if time.monotonic() >= deadline:
            return
        yield kind


if __name__ == "__main__":
    main()
