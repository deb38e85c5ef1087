"""`quorumd quorum alter`: other voters, however many at once; the leader goes there one voter at a time (KIP-595
draft)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.output import Steps, fields, print_json, steps
from quorumd.cli.quorum_describe import target_ids, voter_ids
from quorumd.errors import QuorumdError
from quorumd.ids import ZERO_UUID

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.client.admin import AdminClient
    from quorumd.protocol.messages.describe_quorum_response import PartitionData, ReplicaState

WAIT_S = 60.0
POLL_S = 0.1
STALE_MS = 3000
"""A replica fetches again at least every half second."""


class VoterChangeError(QuorumdError):
    """The voters are not those that were asked for."""


@click.command()
@click.option("--voters", type=options.node_ids, metavar="ID,ID,...", help="The nodes that are to vote.")
@click.option("--cancel", is_flag=True, help="Stay with the voters there are now.")
@click.option("--wait", is_flag=True, help="Return once these are the voters; show how far it is.")
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
    """Change who votes: name all the nodes that are to vote from now on.

    The leader goes there one voter at a time. A node that is to vote runs already and fetches from the leader;
    it votes once it has caught up, and in place of a disk of its own that was replaced. Another --voters replaces
    the one under way, --cancel ends it where it is.
    Exit code 1 if --wait ends before the voters are there; the change goes on then.

    \b
    Examples:
      quorumd quorum alter --bootstrap-server 127.0.0.1:9192 --voters 0,3,4
      quorumd quorum alter --bootstrap-server 127.0.0.1:9192 --voters 0,1,2 --wait --wait-timeout 5m
      quorumd quorum alter --bootstrap-server 127.0.0.1:9192 --cancel
    """
    if (voters is None) is not cancel:
        raise click.UsageError("either --voters or --cancel says what is wanted")
    if cancel and wait:
        raise click.UsageError("--cancel is done at once: there is nothing to --wait for")
    if wait_s is not None and not wait:
        raise click.UsageError("--wait-timeout goes with --wait")

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
    """The quorum once `voters` are its voters; `quorum` is how it is now, `total` the steps there were to make.

    Raises VoterChangeError in time, and at once when somebody else wants other voters by now.
    """

    async def watch(admin: AdminClient, show: Steps) -> PartitionData:
        import asyncio

        now, accepted = quorum, False
        try:
            async with asyncio.timeout(wait_s):
                while not is_complete(now, voters):
                    accepted = accepted or now.target_voters is not None
                    if not accepted and set(voter_ids(now)) == set(voters):
                        # The leader could not tell yet that the disk of a voter was replaced.
                        await admin.alter_quorum(voters)
                    else:
                        check_not_superseded(now, voters)
                    left = remaining_steps(now, voters)
                    most = max(total, left)
                    show(most - left, most, describe_remaining(now, voters))
                    await asyncio.sleep(POLL_S)
                    now = await admin.describe_quorum()
        except TimeoutError:
            raise VoterChangeError(
                f"after {wait_s:g} s the voters are {voter_ids(now)}; {describe_remaining(now, voters)}. "
                f"{_remedy(now)}"
            ) from None
        return now

    with steps() as show:
        patience_ms = 1000 * max(options.timeout_s(), wait_s)
        return run_admin(servers, lambda admin: watch(admin, show), patience_ms, silent=True)


def is_complete(quorum: PartitionData, voters: tuple[int, ...]) -> bool:
    """Whether these are the voters, on disks that are there, and nothing is under way."""
    is_settled = quorum.target_voters is None and remaining_steps(quorum, voters) == 0
    return is_settled and not stale_voters(quorum)


def stale_voters(quorum: PartitionData) -> list[ReplicaState]:
    """Voters that do not fetch. The disk of one may have been replaced by another, which has not fetched yet."""
    leader = _leader(quorum)
    return [
        voter
        for voter in quorum.current_voters
        if leader is not None
        and voter.replica_id != leader.replica_id
        and leader.last_fetch_timestamp - voter.last_fetch_timestamp >= STALE_MS
    ]


def voters_on_replaced_disks(quorum: PartitionData, voters: tuple[int, ...]) -> list[ReplicaState]:
    """Those of `voters` whose vote is on a disk that was replaced: another folder of the node has fetched since."""
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
    """Raises VoterChangeError where somebody replaced or cancelled the change under way."""
    if quorum.target_voters is None:
        raise VoterChangeError(f"the change was cancelled; the voters are {voter_ids(quorum)}")
    if set(target_ids(quorum)) != set(voters):
        raise VoterChangeError(f"another change has replaced this one, to {target_ids(quorum)}")


def remaining_steps(quorum: PartitionData, voters: tuple[int, ...]) -> int:
    """How many voters are still to be added and removed, one in each step; a replaced disk takes one of each."""
    return len(set(voter_ids(quorum)) ^ set(voters)) + 2 * len(voters_on_replaced_disks(quorum, voters))


def describe_remaining(quorum: PartitionData, voters: tuple[int, ...]) -> str:
    """Who is missing, and how far each is; who has to go."""
    now = voter_ids(quorum)
    missing = [f"{voter} ({_describe_progress(quorum, voter)})" for voter in voters if voter not in now]
    leaving = [str(voter) for voter in now if voter not in voters]
    replaced = [
        f"{voter.replica_id} (its vote is on the disk {voter.replica_directory_id}, which does not fetch; the one "
        f"that does: {_describe_progress(quorum, voter.replica_id)})"
        for voter in voters_on_replaced_disks(quorum, voters)
    ]
    lost = {voter.replica_id for voter in voters_on_replaced_disks(quorum, voters)}
    silent = [
        f"{voter.replica_id} (directory id {voter.replica_directory_id} {_time_since_fetch(quorum, voter)})"
        for voter in stale_voters(quorum)
        if voter.replica_id in voters and voter.replica_id not in lost
    ]
    parts = []
    if silent:
        parts.append(f"to fetch again, or from a new disk: {', '.join(silent)}")
    if replaced:
        parts.append(f"to be replaced: {', '.join(replaced)}")
    if missing:
        parts.append(f"to be added: {', '.join(missing)}")
    if leaving:
        parts.append(f"to be removed: {', '.join(leaving)}")
    return "; ".join(parts) or "the last step is being committed"


def _remedy(quorum: PartitionData) -> str:
    if quorum.target_voters is not None:
        return "The change goes on, until it is there or cancelled with: quorumd quorum alter --cancel"
    return "Start the nodes that do not fetch, or leave them out of --voters; a new disk votes once it has caught up"


def _describe_progress(quorum: PartitionData, node_id: int) -> str:
    """How much of the log an observer lacks, or since when it fetches nothing any more."""
    found = [observer for observer in quorum.observers if observer.replica_id == node_id]
    leader = _leader(quorum)
    if not found or leader is None:
        return "has not fetched from the leader"
    # Of two folders of one node, the one that it runs on.
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
