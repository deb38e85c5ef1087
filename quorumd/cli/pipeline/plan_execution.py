"""The execution of waves, for `quorumd pipeline plan apply` and `rollback`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.partitions.reassign import check_finished, raise_refused, start_moves, wait_until_done
from quorumd.cli.partitions.reassignment_progress import PartitionProgress, State, progress_of
from quorumd.cli.pipeline import options as pipeline_options
from quorumd.cli.pipeline.output import print_rows
from quorumd.cli.pipeline.plan_state import bootstrap, check_wave, request_cluster
from quorumd.errors import ConfigError, InputIncomplete, QuorumdError

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.cli.partitions.reassignment_plan import Plan as Assignment
    from quorumd.client.admin import TopicPartition

WAIT_S = 3600.0
SHOWN = 5


class Drifted(QuorumdError):
    """The cluster is neither in the state before the plan nor in the state after it."""


@dataclass(frozen=True, slots=True)
class Wave:
    """The replicas of the partitions of a wave, after and before it."""

    number: int
    target: Assignment
    before: Assignment


def execution_options(command: click.decorators.FC) -> click.decorators.FC:
    """The argument and options of a command that executes waves."""
    for option in (
        pipeline_options.output,
        click.option(
            "--force", is_flag=True, help="Also move partitions that were changed since the plan was made."
        ),
        click.option(
            "--wave-timeout",
            "wave_timeout_s",
            type=options.duration,
            default=f"{WAIT_S:g}s",
            show_default=True,
            metavar="DURATION",
            help="Fail if a wave takes longer than this.",
        ),
        click.option("--wave", type=click.IntRange(min=1), metavar="N", help="Execute only this wave."),
        click.option(
            "--execute", is_flag=True, help="Execute the plan; only print its progress if not given."
        ),
        bootstrap(required=True),
        click.argument("directory", metavar="DIR", type=click.Path(path_type=Path)),
    ):
        command = option(command)
    return command


def wave_numbers(directory: Path, wave: int | None) -> list[int]:
    """Return the waves to execute. Raises ConfigError if `wave` is not in the plan."""
    from quorumd.pipeline.spark.java import need_extra

    need_extra()
    from quorumd.pipeline.plan.files import read_plan_directory

    plan = read_plan_directory(directory)
    check_wave(plan, directory, wave)
    return list(range(1, plan.waves + 1)) if wave is None else [wave]


def run_waves(
    waves: list[tuple[int, Path, Path]],
    servers: Addresses,
    execute: bool,
    wave_timeout_s: float,
    force: bool,
    output: str,
) -> None:
    """Execute waves, given as number, file of the target and file of the state before; or print their progress."""
    rows = []
    for number, target, before in waves:
        wave = Wave(number, _assignment(target), _assignment(before))
        progress = _progress(servers, wave)
        if execute:
            progress = _execute(wave, progress, servers, wave_timeout_s, force)
            click.echo(f"wave {number}: {len(progress)} partitions are done", err=True)
        rows.append(_row(wave, progress))
    print_rows(rows, output, ("wave", "partitions", "done", "moving", "to_do", "changed_since", "missing"))


def _assignment(file: Path) -> Assignment:
    """Read a wave's part of the plan. Raises InputIncomplete if the directory of the plan lacks it."""
    from quorumd.cli.partitions.reassignment_plan import read_plan

    try:
        return read_plan(file)
    except ConfigError as error:
        raise InputIncomplete(str(error)) from None
    except OSError as error:
        raise InputIncomplete(f"{file}: {error.strerror}: the plan is incomplete") from None


def _progress(servers: Addresses, wave: Wave) -> list[PartitionProgress]:
    return request_cluster(servers, lambda admin: progress_of(admin, wave.target))


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
    """Return the partitions that are neither as before the wave nor as after it."""
    return [
        each
        for each in progress
        if each.state is State.ELSEWHERE
        or (each.state is State.NOT_MOVED and each.now != wave.before.get(each.where))
    ]


def _execute(
    wave: Wave, progress: list[PartitionProgress], servers: Addresses, wave_timeout_s: float, force: bool
) -> list[PartitionProgress]:
    """Start the reassignments that are not running and wait for them.

    Raises Drifted, ReassignmentRejected or ReassignmentIncomplete.
    """
    drifted = _drifted(wave, progress)
    if drifted and not force:
        shown = ", ".join(f"{each.where.topic}-{each.where.partition}" for each in drifted[:SHOWN])
        more = f" and {len(drifted) - SHOWN} more" if len(drifted) > SHOWN else ""
        raise Drifted(
            f"wave {wave.number}: {len(drifted)} of {len(progress)} partitions were changed since the plan was made: "
            f"{shown}{more}; make a new plan, or use --force"
        )
    existing = {each.where: wave.target[each.where] for each in progress if each.state is not State.MISSING}
    to_start = {
        each.where: wave.target[each.where]
        for each in progress
        if each.state in (State.NOT_MOVED, State.ELSEWHERE)
    }
    if to_start:
        raise_refused(to_start, start_moves(servers, to_start, False), "cannot be moved")
    if not existing:
        return []
    done = wait_until_done(servers, existing, wave_timeout_s)
    check_finished(done)
    _elect(servers, list(existing))
    return done


def _elect(servers: Addresses, partitions: list[TopicPartition]) -> None:
    """Elect the preferred leaders. A failed election is a warning and does not stop the plan."""
    from quorumd.client.admin import ElectionType
    from quorumd.errors import ErrorCode

    responses = run_admin(
        servers, lambda admin: admin.elect_leaders(ElectionType.PREFERRED, partitions), silent=True
    )
    failed = {
        where: error
        for where, error in responses.items()
        if error and error.code != ErrorCode.ELECTION_NOT_NEEDED
    }
    for where, error in list(failed.items())[:SHOWN]:
        click.echo(f"warning: {where.topic}-{where.partition} keeps its leader: {error.text}", err=True)
    if len(failed) > SHOWN:
        click.echo(f"warning: {len(failed) - SHOWN} more partitions keep their leaders", err=True)
