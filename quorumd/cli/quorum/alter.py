"""`quorumd quorum alter`: replace the voter set; the leader changes one voter at a time (KIP-595 draft)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.output import Steps, fields, print_json, steps
from quorumd.cli.quorum.describe import target_ids, voter_ids
from quorumd.errors import QuorumdError
from quorumd.ids import ZERO_UUID

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.client.admin import AdminClient
    from quorumd.protocol.messages.describe_quorum_response import PartitionData, ReplicaState

WAIT_S = 60.0
POLL_S = 0.1
STALE_MS = 3000
"""Well above half a second, the longest time between two fetches of a replica."""


class VoterChangeError(QuorumdError):
    """The voters differ from the requested voters."""


@click.command()
@click.option(
    "--voters", type=options.node_ids, metavar="ID,ID,...", help="Change the voters to exactly these nodes."
)
@click.option("--cancel", is_flag=True, help="Cancel the change in progress and keep the current voters.")
@click.option("--wait", is_flag=True, help="Return once the change is complete; show the progress.")
@options.wait_timeout(WAIT_S)
@options.bootstrap_server
@options.output
def alter(
    voters: tuple[int, ...] | None,
    cancel: bool,
    wait: bool,
    wait_s: float | None,
    servers: Addresses,
    output: str,
) -> None:
    """Replace the voters with the given nodes.

    The leader adds and removes one voter at a time. A new voter must be running and fetching from the leader; it
    is added once it has caught up, and replaces its own former voter entry if its disk was replaced. A second
    --voters replaces the change in progress; --cancel stops it after the steps made so far. Exit code 1 if --wait
    ends before the change is complete; the change then continues.

    \b
    Examples:
      quorumd quorum alter --bootstrap-server 127.0.0.1:9192 --voters 0,3,4
      quorumd quorum alter --bootstrap-server 127.0.0.1:9192 --voters 0,1,2 --wait --wait-timeout 5m
      quorumd quorum alter --bootstrap-server 127.0.0.1:9192 --cancel
    """
    if (voters is None) is not cancel:
        raise click.UsageError("use exactly one of --voters and --cancel")
    if cancel and wait:
        raise click.UsageError("--cancel cannot be combined with --wait")
    if wait_s is not None and not wait:
        raise click.UsageError("--wait-timeout requires --wait")

    async def change(admin: AdminClient) -> tuple[PartitionData, PartitionData]:
        before = await admin.describe_quorum()
        await admin.alter_quorum(voters)
        return before, await admin.describe_quorum()

    before, quorum = run_admin(servers, change)
    if wait and voters is not None:
        limit_s = WAIT_S if wait_s is None else wait_s
        quorum = wait_for_voters(servers, quorum, voters, remaining_steps(before, voters), limit_s)
    if output == "json":
        print_json({"currentVoters": voter_ids(quorum), "targetVoters": target_ids(quorum)})
    else:
        click.echo(fields([("CurrentVoters", voter_ids(quorum)), ("TargetVoters", target_ids(quorum))]))


def wait_for_voters(
    servers: Addresses, quorum: PartitionData, voters: tuple[int, ...], total: int, wait_s: float
) -> PartitionData:
    """The quorum once its voters are `voters`. `quorum` is its current state, `total` the initial number of steps.

    Raises VoterChangeError after `wait_s`, and immediately if another change replaced this one.
    """

    async def watch(admin: AdminClient, show: Steps) -> PartitionData:
        import asyncio

        now, accepted = quorum, False
        try:
            async with asyncio.timeout(wait_s):
                while not is_complete(now, voters):
                    accepted = accepted or now.target_voters is not None
                    if not accepted and set(voter_ids(now)) == set(voters):
                        # The leader did not know yet that the disk of a voter was replaced.
                        await admin.alter_quorum(voters)
                    else:
                        check_not_superseded(now, voters)
                    left = remaining_steps(now, voters)
                    step_count = max(total, left)
                    show(step_count - left, step_count, describe_remaining(now, voters))
                    await asyncio.sleep(POLL_S)
                    now = await admin.describe_quorum()
        except TimeoutError:
            raise VoterChangeError(
                f"after {wait_s:g} s the voters are {voter_ids(now)}; {describe_remaining(now, voters)}. "
                f"{_remedy(now)}"
            ) from None
        return now

    with steps() as show:
        limit_ms = 1000 * max(options.timeout_s(), wait_s)
        return run_admin(servers, lambda admin: watch(admin, show), limit_ms, silent=True)


def is_complete(quorum: PartitionData, voters: tuple[int, ...]) -> bool:
    """Whether these are the voters, all of them fetch, and no change is in progress."""
    is_settled = quorum.target_voters is None and remaining_steps(quorum, voters) == 0
    return is_settled and not stale_voters(quorum)


def stale_voters(quorum: PartitionData) -> list[ReplicaState]:
    """Voters that do not fetch, for example because their disk was replaced by one that has not fetched yet."""
    leader = _leader(quorum)
    return [
        voter
        for voter in quorum.current_voters
        if leader is not None
        and voter.replica_id != leader.replica_id
        and leader.last_fetch_timestamp - voter.last_fetch_timestamp >= STALE_MS
    ]


def voters_on_replaced_disks(quorum: PartitionData, voters: tuple[int, ...]) -> list[ReplicaState]:
    """The entries of `voters` with a replaced disk: another directory of the same node has fetched since."""
    return [
        voter
        for voter in quorum.current_voters
        if voter.replica_id in voters
        and voter.replica_id != quorum.leader_id
        and voter.replica_directory_id != ZERO_UUID
        and any(
            observer.replica_id == voter.replica_id
            and observer.replica_directory_id not in (ZERO_UUID, voter.replica_directory_id)
            and observer.last_fetch_timestamp > voter.last_fetch_timestamp
            for observer in quorum.observers
        )
    ]


def check_not_superseded(quorum: PartitionData, voters: tuple[int, ...]) -> None:
    """Raise VoterChangeError if the change was replaced or cancelled."""
    if quorum.target_voters is None:
        raise VoterChangeError(f"the change was cancelled; the voters are {voter_ids(quorum)}")
    if set(target_ids(quorum)) != set(voters):
        raise VoterChangeError(f"another change replaced this one; the new target is {target_ids(quorum)}")


def remaining_steps(quorum: PartitionData, voters: tuple[int, ...]) -> int:
    """The number of voters still to add and to remove; a replaced disk takes one of each."""
    return len(set(voter_ids(quorum)) ^ set(voters)) + 2 * len(voters_on_replaced_disks(quorum, voters))


def describe_remaining(quorum: PartitionData, voters: tuple[int, ...]) -> str:
    """The voters still to add, each with its progress, and the voters still to remove."""
    now = voter_ids(quorum)
    missing = [f"{voter} ({_describe_progress(quorum, voter)})" for voter in voters if voter not in now]
    leaving = [str(voter) for voter in now if voter not in voters]
    replaced = [
        f"{voter.replica_id} (its voter directory {voter.replica_directory_id} does not fetch; the new "
        f"directory: {_describe_progress(quorum, voter.replica_id)})"
        for voter in voters_on_replaced_disks(quorum, voters)
    ]
    replaced_ids = {voter.replica_id for voter in voters_on_replaced_disks(quorum, voters)}
    silent = [
        f"{voter.replica_id} (directory id {voter.replica_directory_id} {_time_since_fetch(quorum, voter)})"
        for voter in stale_voters(quorum)
        if voter.replica_id in voters and voter.replica_id not in replaced_ids
    ]
    parts = []
    if silent:
        parts.append(f"not fetching: {', '.join(silent)}")
    if replaced:
        parts.append(f"to be replaced: {', '.join(replaced)}")
    if missing:
        parts.append(f"to be added: {', '.join(missing)}")
    if leaving:
        parts.append(f"to be removed: {', '.join(leaving)}")
    return "; ".join(parts) or "the last step is not committed yet"


def _remedy(quorum: PartitionData) -> str:
    if quorum.target_voters is not None:
        return "The change continues; to cancel it, run: quorumd quorum alter --cancel"
    return "Start the nodes that do not fetch or omit them from --voters; a new disk is added once it has caught up"


def _describe_progress(quorum: PartitionData, node_id: int) -> str:
    """The lag of an observer, or the time since its last fetch."""
    found = [observer for observer in quorum.observers if observer.replica_id == node_id]
    leader = _leader(quorum)
    if not found or leader is None:
        return "has not fetched from the leader"
    # The node may have two directories: use the one that fetched last.
    observer = max(found, key=lambda replica: replica.last_fetch_timestamp)
    if leader.last_fetch_timestamp - observer.last_fetch_timestamp >= STALE_MS:
        return _time_since_fetch(quorum, observer)
    lag = leader.log_end_offset - max(0, observer.log_end_offset)
    return f"{lag:,} record{'s' if lag > 1 else ''} behind" if lag > 0 else "caught up"


def _time_since_fetch(quorum: PartitionData, replica: ReplicaState) -> str:
    leader = _leader(quorum)
    if leader is None or replica.last_fetch_timestamp < 0:
        return "has not fetched from the leader"
    return f"has not fetched for {(leader.last_fetch_timestamp - replica.last_fetch_timestamp) // 1000} s"


def _leader(quorum: PartitionData) -> ReplicaState | None:
    return next((voter for voter in quorum.current_voters if voter.replica_id == quorum.leader_id), None)
