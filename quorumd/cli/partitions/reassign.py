"""`quorumd partitions reassign`: move partitions to other brokers according to a plan (KIP-455)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.output import Steps, columns, listed_ids, print_json, steps
from quorumd.cli.partitions.reassignment_progress import (
    PartitionProgress,
    State,
    current_replicas,
    progress_of,
    summary,
)
from quorumd.errors import QuorumdError

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.cli.partitions.reassignment_plan import Plan
    from quorumd.client.admin import AdminClient, ItemError, TopicPartition

WAIT_S = 600.0
POLL_S = 0.5
UNMOVED_POLLS = 6
"""Polls that must show that a partition has not moved: a broker may describe its replicas before the end of a
reassignment, which the controller no longer lists."""
SHOWN_REFUSALS = 20


class ReassignmentRejected(QuorumdError):
    """The controller rejected the reassignment of some partitions."""


class ReassignmentIncomplete(QuorumdError):
    """Partitions do not have the replicas of the plan yet."""


@click.command()
@click.option(
    "--plan",
    "plan_path",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    help="Read the target replicas from this file in Kafka's reassignment JSON format.",
)
@click.option("--execute", is_flag=True, help="Start the reassignments of the plan.")
@click.option("--verify", is_flag=True, help="Show the progress and fail unless all are done.")
@click.option("--cancel", is_flag=True, help="Cancel the plan's reassignments that are not finished.")
@click.option(
    "--wait", is_flag=True, help="With --execute or --verify: return once all are done; show the progress."
)
@options.wait_timeout(WAIT_S)
@click.option(
    "--save",
    "save_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --execute: write a plan that restores the current replicas into this new file.",
)
@click.option(
    "--keep-replication-factor",
    is_flag=True,
    help="With --execute: reject reassignments that change the replication factor.",
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
    """Move all partitions of a plan to other brokers, at the same time.

    Added replicas copy the data; once all of them are in sync, the replaced replicas are removed. Without --execute,
    --verify or --cancel the current and the target replicas are shown. A second --execute replaces reassignments in
    progress; --cancel restores the previous replicas. Exit code 1 if the controller rejected a reassignment, or if
    --verify or --wait ends before all are done.

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
        raise click.UsageError("use only one of --execute, --verify and --cancel")
    _check_dependent_options(execute, verify, wait, wait_s, save_path is not None or keep_replication_factor)
    from quorumd.cli.partitions.reassignment_plan import read_plan

    plan = read_plan(plan_path)
    if cancel:
        cancel_all(servers, plan, output)
        return
    if execute:
        if save_path is not None:
            save_current(servers, plan, save_path)
        raise_refused(plan, start_moves(servers, plan, keep_replication_factor), "cannot be reassigned")
    progress = _progress(servers, plan, (WAIT_S if wait_s is None else wait_s) if wait else None)
    show(progress, output)
    if wait or verify:
        check_finished(progress)


def _check_dependent_options(
    execute: bool, verify: bool, wait: bool, wait_s: float | None, needs_execute: bool
) -> None:
    if wait and not execute and not verify:
        raise click.UsageError("--wait requires --execute or --verify")
    if wait_s is not None and not wait:
        raise click.UsageError("--wait-timeout requires --wait")
    if needs_execute and not execute:
        raise click.UsageError("--save and --keep-replication-factor require --execute")


def _progress(servers: Addresses, plan: Plan, wait_s: float | None) -> list[PartitionProgress]:
    """The progress now, or once all partitions are done or `wait_s` have passed."""
    if wait_s is None:
        return run_admin(servers, lambda admin: progress_of(admin, plan))
    return wait_until_done(servers, plan, wait_s)


def check_finished(progress: Sequence[PartitionProgress]) -> None:
    """Raise ReassignmentIncomplete unless all partitions have the replicas of the plan."""
    unfinished = sum(each.state is not State.DONE for each in progress)
    if unfinished:
        raise ReassignmentIncomplete(
            f"{unfinished} of {len(progress)} partitions do not have the planned replicas yet; {summary(progress)}"
        )


def start_moves(
    servers: Addresses, plan: Plan, keep_replication_factor: bool
) -> dict[TopicPartition, ItemError]:
    """Start all reassignments and return the rejected partitions with their errors."""
    return run_admin(
        servers,
        lambda admin: admin.alter_reassignments(
            plan, may_change_replication_factor=not keep_replication_factor
        ),
    )


def cancel_all(servers: Addresses, plan: Plan, output: str) -> None:
    """Cancel the plan's unfinished reassignments. Raises ReassignmentRejected for those that cannot be cancelled."""

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
        not_moving = len(plan) - len(cancelled) - len(refused)
        note = f"; {not_moving} had no reassignment" if not_moving else ""
        click.echo(f"cancelled: {len(cancelled)} of {len(plan)} partitions{note}")
    raise_refused(plan, refused, "cannot be cancelled")


def save_current(servers: Addresses, plan: Plan, path: Path) -> None:
    """Write a plan that restores the current replicas. An existing file is not overwritten."""
    from quorumd.cli.partitions.reassignment_plan import plan_text

    now = run_admin(servers, lambda admin: current_replicas(admin, plan))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(plan_text(now))
    except FileExistsError:
        raise click.UsageError(f"{path} already exists; --save writes a new file") from None
    click.echo(f"saved the current replicas: {path}", err=True)


def wait_until_done(servers: Addresses, plan: Plan, wait_s: float) -> list[PartitionProgress]:
    """The progress once no partition of the plan is moving, or after `wait_s` seconds."""

    async def watch(admin: AdminClient, show_steps: Steps) -> list[PartitionProgress]:
        import asyncio

        progress = await progress_of(admin, plan)
        polls_left = UNMOVED_POLLS
        try:
            async with asyncio.timeout(wait_s):
                while polls_left > 0:
                    states = {each.state for each in progress}
                    if State.MOVING in states:
                        polls_left = UNMOVED_POLLS
                    elif State.NOT_MOVED in states:
                        polls_left -= 1
                    else:
                        break
                    done = sum(each.state is State.DONE for each in progress)
                    show_steps(done, len(progress), summary(progress))
                    await asyncio.sleep(POLL_S)
                    progress = await progress_of(admin, plan)
        except TimeoutError:
            pass
        return progress

    with steps("partitions") as show_steps:
        limit_ms = 1000 * max(options.timeout_s(), wait_s)
        return run_admin(servers, lambda admin: watch(admin, show_steps), limit_ms, silent=True)


def raise_refused(plan: Plan, refused: dict[TopicPartition, ItemError], what: str) -> None:
    """Raise ReassignmentRejected with one line per rejected partition, if any."""
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
    """Print the progress of each partition."""
    if output == "json":
        print_json([each.row() for each in progress])
        return
    rows = [
        [f"{each.where.topic}-{each.where.partition}", listed_ids(each.target), each.text]
        for each in progress
    ]
    click.echo(columns(("Partition", "Target", "State"), rows))
