"""`--standalone`, `--initial-controllers` and `--no-initial-controllers` of `quorumd format`, as in Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quorumd.cli.options import directory_id, host_and_port

if TYPE_CHECKING:
    from quorumd.config import Settings
    from quorumd.log.quorum_state_file import Founder


def initial_controllers(text: str) -> tuple[Founder, ...]:
    """`ID@HOST:PORT:DIRECTORY_ID,...` without duplicate ids. A click parameter type."""
    found = tuple(_initial_controller(part.strip()) for part in text.split(","))
    if len({founder.voter_id for founder in found}) < len(found):
        raise click.BadParameter(f"{text!r} lists a node twice")
    return found


def _initial_controller(text: str) -> Founder:
    from quorumd.log.quorum_state_file import Founder

    node_id, at, rest = text.partition("@")
    address, colon, directory = rest.rpartition(":")
    if not at or not colon or not (node_id.isascii() and node_id.isdecimal()) or int(node_id) >= 2**31:
        raise click.BadParameter(f"{text!r} is not ID@HOST:PORT:DIRECTORY_ID")
    host, port = host_and_port(address)
    return Founder(int(node_id), directory_id(directory), host, port)


def founders_for(
    settings: Settings,
    standalone: bool,
    controllers: tuple[Founder, ...] | None,
    no_initial_controllers: bool,
) -> tuple[Founder, ...] | None:
    """The nodes that may found a quorum; None if no option is given. Raises UsageError for options that contradict
    each other, this node or its quorum.voters."""
    from quorumd.ids import ZERO_UUID
    from quorumd.log.quorum_state_file import Founder

    given = {
        "--standalone": standalone,
        "--initial-controllers": controllers is not None,
        "--no-initial-controllers": no_initial_controllers,
    }
    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1:
        raise click.UsageError(f"{names[0]} cannot be combined with {names[1]}")
    if no_initial_controllers:
        return ()
    own = settings.advertised(settings.listener)
    if standalone:
        controllers = (Founder(settings.node_id, ZERO_UUID, own.host, own.port),)
    if controllers is None:
        return None
    ids = sorted(founder.voter_id for founder in controllers)
    if settings.node_id not in ids:
        raise click.UsageError(
            f"--initial-controllers lists the nodes {ids}, but not node {settings.node_id}, which is formatted "
            "here; use --no-initial-controllers, or none of these options"
        )
    configured = sorted(voter.id for voter in settings.quorum_voters)
    if configured and configured != ids:
        raise click.UsageError(
            f"{names[0]} founds a quorum of the nodes {ids}, but quorum.voters lists {configured}; list the same "
            "nodes or remove quorum.voters"
        )
    return controllers
