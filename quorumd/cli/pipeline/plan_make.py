"""`quorumd pipeline plan make`: compute a plan from a state and changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from quorumd.cli import options
from quorumd.cli.pipeline import options as pipeline_options
from quorumd.cli.pipeline.options import SparkOptions
from quorumd.cli.pipeline.plan_parameters import (
    broker_pairs,
    factor,
    pair_of,
    racked_brokers,
    racks_by_broker,
)
from quorumd.cli.pipeline.plan_show import show_figures
from quorumd.cli.pipeline.plan_state import StateSource, chosen_state, live_sizes, state_options
from quorumd.errors import ConfigError

if TYPE_CHECKING:
    from quorumd.pipeline.plan.arrays import Ints
    from quorumd.pipeline.plan.files import Plan
    from quorumd.pipeline.plan.planning import Changes
    from quorumd.pipeline.plan.state import ClusterState

SPARK_FROM = 5_000_000
"""With fewer partitions, planning in this process takes less time than Spark needs to start."""


class _StateAndChanges(StateSource):
    """The options that name the state and the changes of a plan."""

    remove: tuple[int, ...] | None
    add: dict[int, str | None] | None
    replace: tuple[tuple[str, str], ...]
    racks: tuple[tuple[str, str], ...]
    factors: tuple[tuple[str, int], ...]
    topics: str | None
    tolerance: float | None
    sizes_path: Path | None
    live_sizes: bool


CHANGE_OPTIONS = (
    "remove", "add", "replace", "racks", "factors", "topics", "tolerance", "sizes_path", "live_sizes",
)  # fmt: skip


@click.command()
@state_options
@click.option(
    "--remove", "remove", type=options.node_ids, metavar="ID,...", help="Move all replicas off these brokers."
)
@click.option(
    "--add",
    type=racked_brokers,
    metavar="ID:RACK,...",
    help="Move replicas to these brokers, which need not be registered yet.",
)
@click.option(
    "--replace",
    type=pair_of("OLD=NEW, such as 7=21"),
    metavar="OLD=NEW",
    multiple=True,
    help="Move the replicas of OLD to NEW; may be repeated.",
)
@click.option(
    "--rack",
    "racks",
    type=pair_of("ID=RACK, such as 7=rackA"),
    metavar="ID=RACK",
    multiple=True,
    help="Override the rack of a broker; may be repeated.",
)
@click.option(
    "--replication-factor",
    "factors",
    type=factor,
    metavar="[TOPIC=]N",
    multiple=True,
    help="Change the replication factor of all topics, or of one; may be repeated.",
)
@click.option("--topics", type=str, metavar="NAME,...", help="Balance only these topics, and ignore others.")
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 10),
    metavar="SHARE",
    help="Let brokers deviate this much from their share: 0.02 is 2 %.  [default: 0, or 0.02 for bytes]",
)
@click.option(
    "--sizes",
    "sizes_path",
    type=click.Path(path_type=Path, exists=True),
    metavar="FILE",
    help="Balance bytes, read from Parquet, CSV or JSON lines with topic, partition, bytes.",
)
@click.option(
    "--live-sizes",
    is_flag=True,
    help="Balance bytes, as the brokers of --bootstrap-server report them (DescribeLogDirs).",
)
@click.option(
    "--move-limit",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    metavar="N",
    help="Let a broker receive, drop or send at most this many replicas per wave; 0 is unlimited.",
)
@click.option("--include-fenced", is_flag=True, help="Treat fenced brokers as available.")
@click.option(
    "--shards",
    type=click.IntRange(min=1),
    metavar="N",
    help="Plan this many shards of topics independently.  [default: by size]",
)
@click.option(
    "--out",
    "directory",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Write the plan to this directory.",
)
@pipeline_options.spark
@pipeline_options.output
def make(
    move_limit: int,
    include_fenced: bool,
    shards: int | None,
    directory: Path,
    spark: SparkOptions,
    output: str,
    **given: Unpack[_StateAndChanges],
) -> None:
    """Compute a plan and write it to a directory; the cluster is not changed.

    All brokers get the same number of replicas, within one, and preferred leaders as evenly as these replicas
    allow: the only replica of a partition leads it wherever it is. The replicas of a partition stay in different
    racks; if racks differ in size, the brokers of a rack that would need two replicas of a partition get fewer. With
    --sizes and --live-sizes, brokers get the same bytes, within the tolerance; the sizes are written to
    DIR/sizes.parquet, so that --sizes makes the same plan again. The printed bound is the number of moves that every
    plan with this balance needs.

    \b
    Examples:
      quorumd pipeline plan make --bootstrap-server 127.0.0.1:9192 --out plan
      quorumd pipeline plan make --bootstrap-server 127.0.0.1:9192 --live-sizes --out plan
      quorumd pipeline plan make --state history --remove 7,8 --add 21:rackC,22:rackA --out plan
      quorumd pipeline plan make --from 1=/srv/n1 --replication-factor orders=4 --out plan
      quorumd pipeline plan make --state history --replace 7=21 --sizes sizes.parquet --out plan
    """
    from quorumd.pipeline.spark.java import need_extra

    need_extra()
    from quorumd.pipeline.plan.files import check_new, write_plan

    check_new(directory)
    if given["live_sizes"] and given["sizes_path"]:
        raise click.UsageError("--live-sizes cannot be combined with --sizes")
    state, source = chosen_state(given)
    changes = _changes(state, given)
    _check_brokers(state, changes, include_fenced)
    made_from: dict[str, object] = {"state": source, "options": given_options()}
    made = _make(state, changes, move_limit or None, shards, spark, made_from)
    write_plan(made, directory)
    show_figures(made, output)
    if output == "text":
        click.echo(f"written to {directory}", err=True)


def _changes(state: ClusterState, given: _StateAndChanges) -> Changes:
    from quorumd.pipeline.plan.planning import Changes

    topics = given["topics"]
    return Changes(
        frozenset(given["remove"] or ()),
        given["add"] or {},
        broker_pairs(given["replace"], "--replace"),
        racks_by_broker(given["racks"]),
        dict(given["factors"]),
        frozenset(name.strip() for name in topics.split(",")) if topics else frozenset(),
        given["tolerance"],
        _sizes(state, given),
    )


def _sizes(state: ClusterState, given: _StateAndChanges) -> Ints | None:
    """Return the bytes of a replica of each partition; None to balance replicas."""
    if given["sizes_path"] is not None:
        from quorumd.pipeline.plan.loading import sizes_of_file

        return sizes_of_file(given["sizes_path"], state)
    return live_sizes(state, given) if given["live_sizes"] else None


def given_options() -> dict[str, object]:
    """Return the options of the command line that shape the plan, to be stored with it."""
    given = click.get_current_context().params
    return {
        name: str(given[name]) if name == "sizes_path" else given[name]
        for name in (*CHANGE_OPTIONS, "include_fenced")
        if given.get(name)
    }


def _make(
    state: ClusterState,
    changes: Changes,
    move_limit: int | None,
    shards: int | None,
    spark: SparkOptions,
    made_from: dict[str, object],
) -> Plan:
    from quorumd.pipeline.plan.planner import make_plan
    from quorumd.pipeline.spark.settings import is_local

    if len(state) < SPARK_FROM and is_local(spark.master):
        return make_plan(state, changes, move_limit=move_limit, shards=shards, made_from=made_from)
    from quorumd.pipeline.plan.spark_shards import on_spark
    from quorumd.pipeline.spark.progress import doing

    with spark.session() as session:
        doing("planning")
        runner = on_spark(session)
        return make_plan(
            state, changes, move_limit=move_limit, shards=shards, runner=runner, made_from=made_from
        )


def _check_brokers(state: ClusterState, changes: Changes, include_fenced: bool) -> None:
    from quorumd.pipeline.plan.planner import cordoned_brokers, fenced_brokers

    if cordoned := cordoned_brokers(state, changes):
        ids = ",".join(map(str, cordoned))
        raise ConfigError(
            f"all log directories of broker {ids} are cordoned, so it cannot receive replicas; "
            f"uncordon a directory, or use --remove {ids} to move its replicas off"
        )
    fenced = fenced_brokers(state, changes)
    if fenced and not include_fenced:
        ids = ",".join(map(str, fenced))
        raise ConfigError(
            f"broker {ids} is fenced and would not receive its replicas; use --remove {ids} to move them off, "
            "or --include-fenced to treat it as available"
        )
