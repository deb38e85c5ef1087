"""`quorumd quorum alter`: other voters, however many at once; the leader goes there one voter at a time (KIP-595
draft)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.asking import PATIENCE_MS, ask
from quorumd.cli.output import Steps, print_json, steps, tabbed
from quorumd.cli.quorum_describe import target_ids, voter_ids
from quorumd.errors import QuorumdError

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.client.admin import AdminClient
    from quorumd.protocol.messages.describe_quorum_response import PartitionData

WAIT_S = 60.0
POLL_S = 0.1
SILENT_MS = 3000
"""A replica fetches again at least every half second."""


class NotReached(QuorumdError):
    """The voters are not those that were asked for."""


@click.command()
@click.option("--voters", type=options.node_ids, metavar="ID,ID,...", help="The nodes that are to vote.")
@click.option("--cancel", is_flag=True, help="Stay with the voters there are now.")
@click.option("--wait", is_flag=True, help="Return once these are the voters; show how far it is.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help=f"With --wait: how long.  [default: {WAIT_S:g}]",
)
@options.bootstrap_server
@options.output
def alter(
    voters: tuple[int, ...] | None,
    cancel: bool,
    wait: bool,
    timeout_s: float | None,
    servers: Addresses,
    output: str,
) -> None:
    """Change who votes: name all the nodes that are to vote from now on.

    The leader goes there one voter at a time. A node that is to vote runs already and fetches from the leader;
    it votes once it has caught up. Another --voters replaces the one under way, --cancel ends it where it is.
    Exit code 1 if --wait ends before the voters are there; the change goes on then.

    \b
    Examples:
      quorumd quorum alter --bootstrap-server 127.0.0.1:9192 --voters 0,3,4
      quorumd quorum alter --bootstrap-server 127.0.0.1:9192 --voters 0,1,2 --wait --timeout 300
      quorumd quorum alter --bootstrap-server 127.0.0.1:9192 --cancel
    """
    if (voters is None) is not cancel:
        raise click.UsageError("either --voters or --cancel says what is wanted")
    if cancel and wait:
        raise click.UsageError("--cancel is done at once: there is nothing to --wait for")
    if timeout_s is not None and not wait:
        raise click.UsageError("--timeout is how long to --wait")

    async def change(admin: AdminClient) -> tuple[PartitionData, PartitionData]:
        before = await admin.describe_quorum()
        await admin.alter_quorum(voters)
        return before, await admin.describe_quorum()

    before, quorum = ask(servers, change)
    if wait and voters is not None:
        patience_s = WAIT_S if timeout_s is None else timeout_s
        quorum = wait_until_reached(servers, quorum, voters, changes_left(before, voters), patience_s)
    if output == "json":
        print_json({"currentVoters": voter_ids(quorum), "targetVoters": target_ids(quorum)})
    else:
        click.echo(tabbed([("CurrentVoters:", voter_ids(quorum)), ("TargetVoters:", target_ids(quorum))]))


def wait_until_reached(
    servers: Addresses, quorum: PartitionData, voters: tuple[int, ...], total: int, timeout_s: float
) -> PartitionData:
    """The quorum once `voters` are its voters; `quorum` is how it is now, `total` the steps there were to make.

    Raises NotReached in time, and at once when somebody else wants other voters by now.
    """

    async def watch(admin: AdminClient, show: Steps) -> PartitionData:
        import asyncio

        now = quorum
        try:
            async with asyncio.timeout(timeout_s):
                while not is_reached(now, voters):
                    check_still_wanted(now, voters)
                    left = changes_left(now, voters)
                    most = max(total, left)
                    show(most - left, most, still_to_come(now, voters))
                    await asyncio.sleep(POLL_S)
                    now = await admin.describe_quorum()
        except TimeoutError:
            raise NotReached(
                f"after {timeout_s:g} s the voters are {voter_ids(now)}; {still_to_come(now, voters)}. "
                "The change goes on, until it is there or cancelled with: quorumd quorum alter --cancel"
            ) from None
        return now

    with steps() as show:
        patience_ms = max(PATIENCE_MS, timeout_s * 1000)
        return ask(servers, lambda admin: watch(admin, show), patience_ms, silent=True)


def is_reached(quorum: PartitionData, voters: tuple[int, ...]) -> bool:
    """Whether these are the voters, and nothing is under way."""
    return quorum.target_voters is None and set(voter_ids(quorum)) == set(voters)


def check_still_wanted(quorum: PartitionData, voters: tuple[int, ...]) -> None:
    """Raises NotReached where somebody replaced or cancelled the change under way."""
    if quorum.target_voters is None:
        raise NotReached(f"the change was cancelled; the voters are {voter_ids(quorum)}")
    if set(target_ids(quorum)) != set(voters):
        raise NotReached(f"another change has replaced this one, to {target_ids(quorum)}")


def changes_left(quorum: PartitionData, voters: tuple[int, ...]) -> int:
    """How many voters are still to be added and removed, one in each step."""
    return len(set(voter_ids(quorum)) ^ set(voters))


def still_to_come(quorum: PartitionData, voters: tuple[int, ...]) -> str:
    """Who is missing, and how far each is; who has to go."""
    now = voter_ids(quorum)
    missing = [f"{voter} ({_how_far(quorum, voter)})" for voter in voters if voter not in now]
    leaving = [str(voter) for voter in now if voter not in voters]
    parts = []
    if missing:
        parts.append(f"to be added: {', '.join(missing)}")
    if leaving:
        parts.append(f"to be removed: {', '.join(leaving)}")
    return "; ".join(parts) or "the last step is being committed"


def _how_far(quorum: PartitionData, node_id: int) -> str:
    """How much of the log an observer lacks, or since when it fetches nothing any more."""
    found = [observer for observer in quorum.observers if observer.replica_id == node_id]
    leader = next((voter for voter in quorum.current_voters if voter.replica_id == quorum.leader_id), None)
    if not found or leader is None:
        return "has not fetched from the leader"
    # Of two folders of one node, the one that it runs on.
    observer = max(found, key=lambda replica: replica.last_fetch_timestamp)
    silent_ms = leader.last_fetch_timestamp - observer.last_fetch_timestamp
    if silent_ms >= SILENT_MS:
        return f"has not fetched for {silent_ms // 1000} s"
    lag = leader.log_end_offset - max(0, observer.log_end_offset)
    return f"{lag:,} record{'s' if lag > 1 else ''} behind" if lag > 0 else "caught up"
