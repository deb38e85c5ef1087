"""`quorumd partitions reassign`: move partitions to other brokers as a plan says (KIP-455)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.output import Steps, columns, listed_ids, print_json, steps
from quorumd.cli.reassignment_progress import (
    PartitionProgress,
    State,
    current_replicas,
    progress_of,
    summary,
)
from quorumd.errors import QuorumdError

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.cli.reassignment_plan import Plan
    from quorumd.client.admin import AdminClient, ItemError, TopicPartition

WAIT_S = 600.0
POLL_S = 0.5
SHOWN_REFUSALS = 20


class ReassignmentRejected(QuorumdError):
    """The controller will not move some of the partitions."""


class ReassignmentIncomplete(QuorumdError):
    """Partitions are not where the plan wants them."""


@click.command()
@click.option(
    "--plan",
    "plan_path",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="Kafka's reassignment JSON.",
)
@click.option("--execute", is_flag=True, help="Begin the moves.")
@click.option("--verify", is_flag=True, help="Say how far they are.")
@click.option("--cancel", is_flag=True, help="Take back those that are not finished.")
@click.option(
    "--wait", is_flag=True, help="With --execute or --verify: until all are done; show how far it is."
)
@options.wait_timeout(WAIT_S)
@click.option(
    "--save",
    "save_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --execute: write where the partitions are now, a plan that takes them back.",
)
@click.option(
    "--keep-replication-factor",
    is_flag=True,
    help="With --execute: refuse what changes the number of replicas.",
)
@options.bootstrap_server
@options.output
def reassign(
    plan_path: Path,
    execute: bool,
    verify: bool,
    cancel: bool,
    wait: bool,
    wait_s: float | None,
    save_path: Path | None,
    keep_replication_factor: bool,
    servers: Addresses,
    output: str,
) -> None:
    """Move partitions to other brokers, however many at once: all that a plan names begin to move together.

    A replica that is added copies what there is; once all that are added are in sync, the others leave. Without
    --execute, --verify or --cancel: shows where the partitions are and where the plan wants them. Another --execute
    replaces moves under way, --cancel goes back to where partitions were before. Exit code 1 if something was
    refused, and if --verify or --wait ends before all are done.

    \b
    A plan:
      {"version": 1, "partitions": [
        {"topic": "orders", "partition": 0, "replicas": [4, 5, 6]},
        {"topic": "orders", "partition": 1, "replicas": [5, 6, 4], "log_dirs": ["any", "any", "any"]}]}

    \b
    Examples:
      quorumd partitions reassign --bootstrap-server 127.0.0.1:9192 --plan move.json
      quorumd partitions reassign --bootstrap-server 127.0.0.1:9192 --plan move.json --execute --wait \\
        --save back.json
      quorumd partitions reassign --bootstrap-server 127.0.0.1:9192 --plan move.json --verify --output json
      quorumd partitions reassign --bootstrap-server 127.0.0.1:9192 --plan move.json --cancel
    """
    if execute + verify + cancel > 1:
        raise click.UsageError("one of --execute, --verify and --cancel at a time")
    if wait and not execute and not verify:
        raise click.UsageError("--wait goes with --execute or --verify")
    if wait_s is not None and not wait:
        raise click.UsageError("--wait-timeout goes with --wait")
    if not execute and (save_path is not None or keep_replication_factor):
        raise click.UsageError("--save and --keep-replication-factor go with --execute")
    from quorumd.cli.reassignment_plan import read_plan

    plan = read_plan(plan_path)
    if cancel:
        cancel_all(servers, plan, output)
        return
    if execute:
        if save_path is not None:
            save_current(servers, plan, save_path)
        raise_refused(plan, start_moves(servers, plan, keep_replication_factor), "cannot be moved")
    progress = (
        wait_until_done(servers, plan, WAIT_S if wait_s is None else wait_s)
        if wait
        else run_admin(servers, lambda admin: progress_of(admin, plan))
    )
    show(progress, output)
    if wait or verify:
        check_finished(progress)


def check_finished(progress: Sequence[PartitionProgress]) -> None:
    """Raises ReassignmentIncomplete where a partition is not where the plan wants it."""
    unfinished = sum(each.state is not State.DONE for each in progress)
    if unfinished:
        raise ReassignmentIncomplete(
            f"{unfinished} of {len(progress)} partitions are not where the plan wants them; {summary(progress)}"
        )


def start_moves(
    servers: Addresses, plan: Plan, keep_replication_factor: bool
) -> dict[TopicPartition, ItemError]:
    """Begin all moves; those that were refused."""
    return run_admin(
        servers,
        lambda admin: admin.alter_reassignments(
            plan, may_change_replication_factor=not keep_replication_factor
        ),
    )


def cancel_all(servers: Addresses, plan: Plan, output: str) -> None:
    """Take back the moves of the plan that are not finished. Raises Refused for those that cannot be."""

    async def cancel_moves(
        admin: AdminClient,
    ) -> tuple[list[TopicPartition], dict[TopicPartition, ItemError]]:
        ongoing = list(await admin.list_reassignments(list(plan)))
        refused = await admin.alter_reassignments(dict.fromkeys(ongoing)) if ongoing else {}
        return [where for where in ongoing if where not in refused], refused

    cancelled, refused = run_admin(servers, cancel_moves)
    if output == "json":
        print_json([{"topic": where.topic, "partition": where.partition} for where in cancelled])
    else:
        idle = len(plan) - len(cancelled) - len(refused)
        still = f"; {idle} were not being moved" if idle else ""
        click.echo(f"cancelled: {len(cancelled)} of {len(plan)} partitions{still}")
    raise_refused(plan, refused, "cannot go back")


def save_current(servers: Addresses, plan: Plan, path: Path) -> None:
    """Write where the partitions of the plan are to stay, as things are. Never over a file that is there."""
    from quorumd.cli.reassignment_plan import plan_text

    now = run_admin(servers, lambda admin: current_replicas(admin, plan))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(plan_text(now))
    except FileExistsError:
        raise click.UsageError(f"{path} is there already: --save writes a new file") from None
    click.echo(f"saved where they are now: {path}", err=True)


def wait_until_done(servers: Addresses, plan: Plan, wait_s: float) -> list[PartitionProgress]:
    """The progress once nothing of the plan is moving any more, or when the time is over."""

    async def watch(admin: AdminClient, show_steps: Steps) -> list[PartitionProgress]:
        import asyncio

        progress = await progress_of(admin, plan)
        try:
            async with asyncio.timeout(wait_s):
                while any(each.state is State.MOVING for each in progress):
                    done = sum(each.state is State.DONE for each in progress)
                    show_steps(done, len(progress), summary(progress))
                    await asyncio.sleep(POLL_S)
                    progress = await progress_of(admin, plan)
        except TimeoutError:
            pass
        return progress

    with steps("partitions") as show_steps:
        patience_ms = 1000 * max(options.timeout_s(), wait_s)
        return run_admin(servers, lambda admin: watch(admin, show_steps), patience_ms, silent=True)


def raise_refused(plan: Plan, refused: dict[TopicPartition, ItemError], what: str) -> None:
    """Raises Refused where something was, a line each."""
    if not refused:
        return
    lines = [
        f"{where.topic}-{where.partition} {what}: {error.text}"
        for where, error in list(refused.items())[:SHOWN_REFUSALS]
    ]
    if len(refused) > len(lines):
        lines.append(f"and {len(refused) - len(lines)} more")
    if len(refused) < len(plan):
        lines.append(f"the other {len(plan) - len(refused)} of {len(plan)} partitions were accepted")
    raise ReassignmentRejected("\n".join(lines))


def show(progress: Sequence[PartitionProgress], output: str) -> None:
    """The partitions, a line each."""
    if output == "json":
        print_json([each.row() for each in progress])
        return
    rows = [
        [f"{each.where.topic}-{each.where.partition}", listed_ids(each.target), each.text]
        for each in progress
    ]
    click.echo(columns(("Partition", "Target", "State"), rows))
