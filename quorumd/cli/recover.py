"""`quorumd recover`: lower an epoch after which no leader can be elected."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorumd.cli import options

if TYPE_CHECKING:
    from quorumd.log.quorum_state_file import SavedState


@click.command()
@options.config_file
@click.option(
    "--epoch",
    type=click.IntRange(min=1),
    help="Continue in this epoch, the same on every voter: one above the greatest last epoch of all logs.",
)
@click.option("--yes", is_flag=True, help="Write the epoch; only print the change if not given.")
def recover(config_path: Path, epoch: int | None, yes: bool) -> None:
    """Lower the epoch in the quorum-state of a stopped node, if it is so large that no leader can be elected.

    Stop all voters first and run this on each of them: once to see the epoch of each log, then with the same
    --epoch everywhere. The log is recovered as at every start; apart from that only quorum-state changes, and only
    with --yes. Rejected with exit code 3 while the node runs.

    \b
    Examples:
      quorumd recover --config config/three-nodes/1.properties
      quorumd recover --config config/three-nodes/1.properties --epoch 8
      quorumd recover --config config/three-nodes/1.properties --epoch 8 --yes
    """
    from quorumd.config import load
    from quorumd.log.directory_lock import lock_directory
    from quorumd.node.recovered_data import recover_data
    from quorumd.runtime.disk import OsDisk

    settings = load(str(config_path)).node_settings()
    disk = OsDisk(lambda callback: None)
    lock = lock_directory(disk, settings.data_directory)
    try:
        data = recover_data(disk, settings)
        state, last_epoch = data.saved.state, data.log.last_epoch
        data.log.close()
        click.echo(
            f"{settings.data_directory}: epoch {state.leader_epoch}, last epoch of the log {last_epoch}"
        )
        if epoch is None:
            check_exhausted(state)
            click.echo("use --epoch with one above the greatest last epoch of the logs of all voters")
            return
        lowered = lowered_state(state, last_epoch, epoch)
        if yes:
            data.state_file.save(lowered)
        click.echo(f"{'changed' if yes else 'would change'} the epoch to {epoch}; no vote, no leader")
        if not yes:
            click.echo("nothing was changed; run it again with --yes")
    finally:
        lock.close()


def check_exhausted(state: SavedState) -> None:
    """Raise QuorumdError if a leader can be elected after the epoch of this state."""
    from quorumd.errors import QuorumdError
    from quorumd.raft.replica import LAST_EPOCH

    if state.leader_epoch < LAST_EPOCH:
        raise QuorumdError(
            f"epoch {state.leader_epoch} is below {LAST_EPOCH}, so elections are possible: nothing to recover"
        )


def lowered_state(state: SavedState, last_epoch: int, epoch: int) -> SavedState:
    """The state in a lower epoch, without a vote. Raises QuorumdError if two leaders could be elected in an epoch."""
    from quorumd.errors import QuorumdError
    from quorumd.ids import NO_NODE, ZERO_UUID
    from quorumd.raft.replica import LAST_EPOCH

    check_exhausted(state)
    if not last_epoch < epoch < LAST_EPOCH:
        raise QuorumdError(
            f"--epoch {epoch} must be above {last_epoch}, the last epoch of the log, and below {LAST_EPOCH}"
        )
    return state._replace(
        leader_epoch=epoch, leader_id=NO_NODE, voted_id=NO_NODE, voted_directory_id=ZERO_UUID
    )
