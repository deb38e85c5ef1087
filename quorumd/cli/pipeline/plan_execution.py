"""`quorumd pipeline plan apply` and `rollback`: the waves of a plan, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.partitions_reassign import check_finished, raise_refused, start_moves, wait_until_done
from quorumd.cli.pipeline import options as pipeline_options
from quorumd.cli.pipeline.output import print_rows
from quorumd.cli.pipeline.plan_state import ask_cluster, bootstrap
from quorumd.cli.reassignment_progress import PartitionProgress, State, progress_of
from quorumd.errors import ConfigError, InputIncomplete, QuorumdError

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.cli.reassignment_plan import Plan as Assignment
    from quorumd.client.admin import TopicPartition
    from quorumd.pipeline.plan.files import Plan

WAIT_S = 3600.0
SHOWN = 5


class Drifted(QuorumdError):
    """The cluster is neither as before the plan nor as after it."""


@dataclass(frozen=True, slots=True)
class Wave:
    """What a wave makes of partitions, and what they are to be before it."""

    number: int
    target: Assignment
    before: Assignment


def _execution_options(command: click.decorators.FC) -> click.decorators.FC:
    for option in (
        pipeline_options.output,
        click.option(
            "--force", is_flag=True, help="Also partitions that were changed since the plan was made."
        ),
        click.option(
            "--wave-timeout",
            "wave_s",
            type=options.duration,
            default=f"{WAIT_S:g}s",
            show_default=True,
            metavar="DURATION",
            help="Stop where a wave is not done after this long.",
        ),
        click.option("--wave", type=click.IntRange(min=1), metavar="N", help="This wave only."),
        click.option("--execute", is_flag=True, help="Do it; without it only say what there is to do."),
        bootstrap(required=True),
        click.argument("folder", metavar="DIR", type=click.Path(path_type=Path)),
    ):
        command = option(command)
    return command


@click.command()
@_execution_options
def apply(
    folder: Path,
    servers: Addresses,
    execute: bool,
    wave: int | None,
    wave_s: float,
    force: bool,
    output: str,
) -> None:
    """Execute a plan, a wave after the other, each when the one before is done.

    Partitions that are as planned already are left alone: run it again after it was stopped, and it goes on. What was
    changed since the plan was made is not touched. After each wave the preferred leaders of its partitions are
    elected.

    \b
    Examples:
      quorumd pipeline plan apply plan --bootstrap 127.0.0.1:9192
      quorumd pipeline plan apply plan --bootstrap 127.0.0.1:9192 --execute
      quorumd pipeline plan apply plan --bootstrap 127.0.0.1:9192 --execute --wave 3
    """
    from quorumd.pipeline.plan.files import rollback_file, wave_file

    numbers = _numbers(folder, wave)
    waves = [(number, wave_file(folder, number), rollback_file(folder, number)) for number in numbers]
    _run(waves, servers, execute, wave_s, force, output)


@click.command()
@_execution_options
def rollback(
    folder: Path,
    servers: Addresses,
    execute: bool,
    wave: int | None,
    wave_s: float,
    force: bool,
    output: str,
) -> None:
    """Take a plan back, the last wave first: every partition as it was before.

    \b
    Examples:
      quorumd pipeline plan rollback plan --bootstrap 127.0.0.1:9192
      quorumd pipeline plan rollback plan --bootstrap 127.0.0.1:9192 --execute
    """
    from quorumd.pipeline.plan.files import rollback_file, wave_file

    numbers = _numbers(folder, wave)[::-1]
    waves = [(number, rollback_file(folder, number), wave_file(folder, number)) for number in numbers]
    _run(waves, servers, execute, wave_s, force, output)


def _numbers(folder: Path, wave: int | None) -> list[int]:
    """The waves to execute. Raises ConfigError for one that is not in the plan."""
    from quorumd.pipeline.spark.java import need_extra

    need_extra()
    from quorumd.pipeline.plan.files import read_plan_folder

    plan = read_plan_folder(folder)
    check_wave(plan, folder, wave)
    return list(range(1, plan.waves + 1)) if wave is None else [wave]


def check_wave(plan: Plan, folder: Path, wave: int | None) -> None:
    """Raises ConfigError for a wave that the plan does not have."""
    if wave is not None and wave > plan.waves:
        raise ConfigError(f"--wave {wave}: the plan in {folder} has {plan.waves} waves")


def _run(
    waves: list[tuple[int, Path, Path]],
    servers: Addresses,
    execute: bool,
    wave_s: float,
    force: bool,
    output: str,
) -> None:
    rows = []
    for number, target, before in waves:
        wave = Wave(number, _assignment(target), _assignment(before))
        progress = _progress(servers, wave)
        if execute:
            progress = _execute(wave, progress, servers, wave_s, force)
            click.echo(f"wave {number}: {len(progress)} partitions are done", err=True)
        rows.append(_row(wave, progress))
    print_rows(rows, output, ("wave", "partitions", "done", "moving", "to_do", "changed_since", "missing"))


def _assignment(file: Path) -> Assignment:
    """A wave's part of the plan. Raises InputIncomplete: nobody named this file on the command line."""
    from quorumd.cli.reassignment_plan import read_plan

    try:
        return read_plan(file)
    except ConfigError as error:
        raise InputIncomplete(str(error)) from None
    except OSError as error:
        raise InputIncomplete(f"{file}: {error.strerror}: the plan is not whole") from None


def _progress(servers: Addresses, wave: Wave) -> list[PartitionProgress]:
    return ask_cluster(servers, lambda admin: progress_of(admin, wave.target))


def _row(wave: Wave, progress: list[PartitionProgress]) -> dict[str, int]:
    states = [each.state for each in progress]
    drifted = len(_drifted(wave, progress))
    missing = states.count(State.MISSING)
    done, moving = states.count(State.DONE), states.count(State.MOVING)
    return {
        "wave": wave.number,
        "partitions": len(progress),
        "done": done,
        "moving": moving,
        "to_do": len(progress) - done - moving - missing - drifted,
        "changed_since": drifted,
        "missing": missing,
    }


def _drifted(wave: Wave, progress: list[PartitionProgress]) -> list[PartitionProgress]:
    """Partitions that are neither as before the wave nor as it makes them."""
    return [
        each
        for each in progress
        if each.state is State.ELSEWHERE
        or (each.state is State.NOT_MOVED and each.now != wave.before.get(each.where))
    ]


def _execute(
    wave: Wave, progress: list[PartitionProgress], servers: Addresses, wave_s: float, force: bool
) -> list[PartitionProgress]:
    """Begin what is not begun and wait. Raises Drifted, Refused or ReassignmentIncomplete."""
    drifted = _drifted(wave, progress)
    if drifted and not force:
        shown = ", ".join(f"{each.where.topic}-{each.where.partition}" for each in drifted[:SHOWN])
        more = f" and {len(drifted) - SHOWN} more" if len(drifted) > SHOWN else ""
        raise Drifted(
            f"wave {wave.number}: {len(drifted)} of {len(progress)} partitions were changed since the plan was made: "
            f"{shown}{more}; make a new plan, or --force"
        )
    there = {each.where: wave.target[each.where] for each in progress if each.state is not State.MISSING}
    to_begin = {
        each.where: wave.target[each.where]
        for each in progress
        if each.state in (State.NOT_MOVED, State.ELSEWHERE)
    }
    if to_begin:
        raise_refused(to_begin, start_moves(servers, to_begin, False), "cannot be moved")
    if not there:
        return []
    done = wait_until_done(servers, there, wave_s)
    check_finished(done)
    _elect(servers, list(there))
    return done


def _elect(servers: Addresses, partitions: list[TopicPartition]) -> None:
    """Let the preferred leaders lead; those that do, or cannot yet, are no reason to stop."""
    from quorumd.client.admin import ElectionType
    from quorumd.errors import ErrorCode

    answers = run_admin(
        servers, lambda admin: admin.elect_leaders(ElectionType.PREFERRED, partitions), silent=True
    )
    failed = {
        where: error
        for where, error in answers.items()
        if error and error.code != ErrorCode.ELECTION_NOT_NEEDED
    }
    for where, error in list(failed.items())[:SHOWN]:
        click.echo(f"warning: {where.topic}-{where.partition} keeps its leader: {error.text}", err=True)
    if len(failed) > SHOWN:
        click.echo(f"warning: and {len(failed) - SHOWN} more keep theirs", err=True)
