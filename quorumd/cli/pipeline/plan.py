"""`quorumd pipeline plan`: reassignments with the fewest moves: making them, showing them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quorumd.cli import options
from quorumd.cli.output import columns
from quorumd.cli.pipeline import options as pipeline_options
from quorumd.cli.pipeline.options import SparkOptions
from quorumd.cli.pipeline.output import print_rows
from quorumd.cli.pipeline.plan_execution import apply, check_wave, rollback
from quorumd.cli.pipeline.plan_state import chosen_state, state_options
from quorumd.cli.pipeline.plan_verify import verify
from quorumd.errors import ConfigError

if TYPE_CHECKING:
    from quorumd.pipeline.plan.files import Plan
    from quorumd.pipeline.plan.planning import Changes
    from quorumd.pipeline.plan.state import ClusterState

SPARK_FROM = 5_000_000
"""Partitions: fewer are planned in this process in the time that Spark takes to start, unless a cluster is named."""


@click.group()
def plan() -> None:
    """Balance a cluster with the fewest moves, in waves, with a way back.

    `make` writes a folder and changes nothing; `apply` executes it wave by wave, and so do `quorumd partitions
    reassign` and Kafka's own kafka-reassign-partitions with the files in it.

    \b
    Examples:
      quorumd pipeline plan make --bootstrap 127.0.0.1:9192 --remove 7 --add 21:rackC --out plan
      quorumd pipeline plan show plan --brokers
      quorumd pipeline plan apply plan --bootstrap 127.0.0.1:9192 --execute
      quorumd pipeline plan verify plan --bootstrap 127.0.0.1:9192
    """


def racked_brokers(text: str) -> dict[int, str | None]:
    """`21:rackC,22` as racks by broker. A parameter type of click."""
    found: dict[int, str | None] = {}
    for part in text.split(","):
        broker, colon, rack = part.strip().partition(":")
        if not _is_id(broker) or (colon and not rack):
            raise click.BadParameter(f"{part!r} is not BROKER or BROKER:RACK, such as 21:rackC")
        if int(broker) in found:
            raise click.BadParameter(f"broker {broker} is named twice")
        found[int(broker)] = rack or None
    return found


def pair_of(what: str) -> Callable[[str], tuple[str, str]]:
    """A parameter type of click: `A=B`."""

    def read(text: str) -> tuple[str, str]:
        left, equals, right = text.strip().rpartition("=")
        if not equals or not left or not right:
            raise click.BadParameter(f"{text!r} is not {what}")
        return left, right

    return read


def factor(text: str) -> tuple[str, int]:
    """`3` as ("", 3), `orders=3` as ("orders", 3). A parameter type of click."""
    topic, _, number = text.strip().rpartition("=")
    if not (number.isascii() and number.isdecimal()) or not 0 < int(number) < 2**15:
        raise click.BadParameter(f"{text!r} is not N or TOPIC=N with N of 1 or more")
    return topic, int(number)


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) < 2**31


@plan.command()
@state_options
@click.option("--remove", "remove", type=options.node_ids, metavar="ID,...", help="Empty these brokers.")
@click.option(
    "--add",
    type=racked_brokers,
    metavar="ID:RACK,...",
    help="Brokers that have nothing yet and may not be there yet.",
)
@click.option(
    "--replace",
    type=pair_of("OLD=NEW, such as 7=21"),
    metavar="OLD=NEW",
    multiple=True,
    help="NEW takes the place of OLD; may be given several times.",
)
@click.option(
    "--rack",
    "racks",
    type=pair_of("ID=RACK, such as 7=rackA"),
    metavar="ID=RACK",
    multiple=True,
    help="The rack of a broker that says another or none.",
)
@click.option(
    "--replication-factor",
    "factors",
    type=factor,
    metavar="[TOPIC=]N",
    multiple=True,
    help="So many replicas, of all topics or of one; may be given several times.",
)
@click.option(
    "--topics", type=str, metavar="NAME,...", help="Plan for these topics only, balanced among themselves."
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 10),
    metavar="SHARE",
    help="How far from its share a broker may be: 0.02 is 2 %.  [default: 0, or 0.02 with --sizes]",
)
@click.option(
    "--sizes",
    "sizes_path",
    type=click.Path(path_type=Path, exists=True),
    metavar="FILE",
    help="Balance bytes: Parquet, CSV or JSON lines with topic, partition, bytes.",
)
@click.option(
    "--move-limit",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    metavar="N",
    help="Replicas that a broker gets, loses or sends in a wave; 0 for no limit.",
)
@click.option("--include-fenced", is_flag=True, help="Plan with fenced brokers as if they were up.")
@click.option(
    "--shards",
    type=click.IntRange(min=1),
    metavar="N",
    help="Shards of topics that are planned apart.  [default: by size]",
)
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="The folder that is written.",
)
@pipeline_options.spark
@pipeline_options.output
def make(
    remove: tuple[int, ...] | None,
    add: dict[int, str | None] | None,
    replace: tuple[tuple[str, str], ...],
    racks: tuple[tuple[str, str], ...],
    factors: tuple[tuple[str, int], ...],
    topics: str | None,
    tolerance: float | None,
    sizes_path: Path | None,
    move_limit: int,
    include_fenced: bool,
    shards: int | None,
    folder: Path,
    spark: SparkOptions,
    output: str,
    **where: Any,
) -> None:
    """Make a plan and write it into a folder. Nothing else is changed.

    Every broker gets as many replicas as the others, one more or less, and leads as many partitions. Partitions keep
    their replicas in different racks; where racks differ in size, brokers of a rack that would need more than one
    replica of a partition get fewer. No plan that is as even can do with fewer moves than the bound that is told.

    \b
    Examples:
      quorumd pipeline plan make --bootstrap 127.0.0.1:9192 --out plan
      quorumd pipeline plan make --state history --remove 7,8 --add 21:rackC,22:rackA --out plan
      quorumd pipeline plan make --from 1=/srv/n1 --replication-factor orders=4 --out plan
      quorumd pipeline plan make --state history --replace 7=21 --sizes sizes.parquet --out plan
    """
    from quorumd.pipeline.spark.java import need_extra

    need_extra()
    from quorumd.pipeline.plan.files import check_new, write_plan
    from quorumd.pipeline.plan.loading import sizes_of_file
    from quorumd.pipeline.plan.planning import Changes

    check_new(folder)
    state, source = chosen_state(where)
    changes = Changes(
        frozenset(remove or ()),
        add or {},
        _ids(replace, "--replace"),
        _racks(racks),
        dict(factors),
        frozenset(name.strip() for name in topics.split(",")) if topics else frozenset(),
        tolerance,
        sizes_of_file(sizes_path, state) if sizes_path is not None else None,
    )
    _check_brokers(state, changes, include_fenced)
    made_from = {"state": source, "options": told_options()}
    made = _made(state, changes, move_limit or None, shards, spark, made_from)
    write_plan(made, folder)
    show_figures(made, output)
    if output == "table":
        click.echo(f"written to {folder}", err=True)


def told_options() -> dict[str, Any]:
    """What the command line says about the plan, for whoever reads it later."""
    given = click.get_current_context().params
    names = (
        "remove",
        "add",
        "replace",
        "racks",
        "factors",
        "topics",
        "tolerance",
        "sizes_path",
        "include_fenced",
    )
    return {
        name: str(given[name]) if name == "sizes_path" else given[name] for name in names if given.get(name)
    }


def _made(
    state: ClusterState,
    changes: Changes,
    move_limit: int | None,
    shards: int | None,
    spark: SparkOptions,
    made_from: dict[str, Any],
) -> Plan:
    from quorumd.pipeline.plan.making import make_plan
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


def _ids(pairs: tuple[tuple[str, str], ...], option: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for old, new in pairs:
        if not _is_id(old) or not _is_id(new):
            raise ConfigError(f"{option} {old}={new}: expected ids of brokers, such as 7=21")
        if int(old) in found:
            raise ConfigError(f"{option}: broker {old} is named twice")
        found[int(old)] = int(new)
    return found


def _racks(pairs: tuple[tuple[str, str], ...]) -> dict[int, str]:
    found: dict[int, str] = {}
    for broker, rack in pairs:
        if not _is_id(broker):
            raise ConfigError(f"--rack {broker}={rack}: expected the id of a broker, such as 7=rackA")
        found[int(broker)] = rack
    return found


def _check_brokers(state: ClusterState, changes: Changes, include_fenced: bool) -> None:
    from quorumd.pipeline.plan.making import cordoned_brokers, fenced_brokers

    if cordoned := cordoned_brokers(state, changes):
        ids = ",".join(map(str, cordoned))
        raise ConfigError(
            f"all log directories of broker {ids} are cordoned, no reassignment may name it: --remove {ids} empties "
            "it, or uncordon a directory"
        )
    fenced = fenced_brokers(state, changes)
    if fenced and not include_fenced:
        ids = ",".join(map(str, fenced))
        raise ConfigError(
            f"broker {ids} is fenced, what it gets would not arrive: --remove {ids} empties it, "
            "--include-fenced plans as if it were up"
        )


@plan.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--brokers", is_flag=True, help="What brokers have before and after.")
@click.option("--moves", is_flag=True, help="What happens to each partition.")
@click.option("--wave", type=click.IntRange(min=1), metavar="N", help="With --moves: of this wave only.")
@pipeline_options.output
def show(folder: Path, brokers: bool, moves: bool, wave: int | None, output: str) -> None:
    """Show a plan: its figures, its brokers, or its moves.

    \b
    Examples:
      quorumd pipeline plan show plan
      quorumd pipeline plan show plan --brokers
      quorumd pipeline plan show plan --moves --wave 3 --output csv
    """
    if brokers and moves:
        raise click.UsageError("one of --brokers and --moves at a time")
    if wave is not None and not moves:
        raise click.UsageError("--wave goes with --moves")
    from quorumd.pipeline.spark.java import need_extra

    need_extra()
    from quorumd.pipeline.plan.files import read_plan_folder

    found = read_plan_folder(folder)
    check_wave(found, folder, wave)
    if brokers:
        print_rows(found.brokers, output)
    elif moves:
        print_rows(found.moves if wave is None else found.of_wave(wave), output)
    else:
        show_figures(found, output)


def show_figures(found: Plan, output: str) -> None:
    """How much a plan moves and what it brings."""
    figures = found.figures
    if output == "json":
        click.echo(json.dumps({**figures, "made_from": found.made_from}, indent=2))
        return
    rows = _comparison(figures)
    if output != "table":
        print_rows(rows, output)
        return
    by_bytes = figures["bytes"] is not None
    amount = f"{figures['moves']:,} replicas are copied"
    if by_bytes:
        amount += (
            f", {figures['bytes']:,} bytes (no plan as even needs less than {figures['lower_bound_bytes']:,})"
        )
    else:
        amount += f" (no plan as even needs less than {figures['lower_bound']:,})"
    changed = f"{figures['changed_partitions']:,} of {figures['partitions']:,} partitions change"
    noun = "wave" if figures["waves"] == 1 else "waves"
    click.echo(f"{changed}, {amount}, in {figures['waves']:,} {noun}\n")
    click.echo(
        columns(("Figure", "Before", "After"), [[row["figure"], row["before"], row["after"]] for row in rows])
    )


def _comparison(figures: dict[str, Any]) -> list[dict[str, Any]]:
    names = {
        "replicas_min": "fewest replicas of a broker",
        "replicas_max": "most replicas of a broker",
        "replicas_max_to_mean": "most replicas of a broker to mean",
        "leaders_min": "fewest leaders of a broker",
        "leaders_max": "most leaders of a broker",
        "leaders_max_to_mean": "most leaders of a broker to mean",
        "bytes_max_to_mean": "most bytes of a broker to mean",
        "rack_violations": "partitions with too many replicas in a rack",
        "most_of_a_topic": "most replicas of a topic on a broker above its share",
    }
    return [
        {"figure": name, "before": figures["before"][key], "after": figures["after"].get(key)}
        for key, name in names.items()
        if key in figures["before"]
    ]


for _command in (verify, apply, rollback):
    plan.add_command(_command)
