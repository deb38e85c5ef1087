"""`make stream-kills`: streams into Parquet are killed (kill -9) many times; each record is in the table once.

Three streams, one with Spark's file sink, one with foreachBatch and one into a history, are killed in turns at
every stage of a micro-batch, KILLS times in all.
"""

from __future__ import annotations

import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from tests.pipeline.stream_kills.job import STAGES
from tests.pipeline.stream_kills.lanes import BATCHES_A_RUN, Kill, Lane


@click.command()
@click.option("--kills", default=100, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(kills: int, seed: int) -> None:
    """Kill streams, and count the records they wrote."""
    lots = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="quorumd-stream-kills-") as directory:
        lanes = []
        for sink, stages in STAGES.items():
            moments = [stages[n % len(stages)] for n in range(kills // len(STAGES))]
            chosen = [Kill(stage, lots.randrange(BATCHES_A_RUN)) for stage in moments]
            lots.shuffle(chosen)
            lanes.append(Lane(Path(directory) / sink, sink, chosen))
        with ThreadPoolExecutor(len(lanes)) as threads:
            list(threads.map(lambda lane: lane.run(click.echo), lanes))
        for lane in lanes:
            click.echo(
                f"{lane.sink}: {lane.killed} of {len(lane.kills)} runs killed, in the table: {lane.reported}"
            )
            lane.check()
        if any(lane.killed < len(lane.kills) * 0.9 for lane in lanes):
            sys.exit("too few runs were killed: they ended before their moment came")


if __name__ == "__main__":
    main()
