"""Where the commands of `quorumd pipeline plan` find the state of a cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.client.admin import AdminClient
    from quorumd.pipeline.plan.state import ClusterState

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

REQUEST_LIMIT = "60s"
"""For one page of two thousand partitions, however busy the node is."""


def state_options(command: F) -> F:
    """`--state`, `--bootstrap` and `--from`, for `chosen_state`."""
    for option in (
        click.option(
            "--from", "folders", metavar="ID=FOLDER,...", help="Folders of a log: the state at its end."
        ),
        bootstrap(required=False),
        click.option(
            "--state",
            "history",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="A history, as `history build` writes it.",
        ),
    ):
        command = option(command)
    return command


def bootstrap(*, required: bool) -> Callable[[F], F]:
    """`--bootstrap`, by its name elsewhere too: a live cluster; and `--timeout`."""
    option = click.option(
        "--bootstrap",
        "--bootstrap-server",
        "servers",
        type=options.addresses,
        metavar="HOST:PORT",
        envvar=options.SERVERS_VARIABLE,
        show_envvar=True,
        required=required,
        help="A cluster at work: any node, or several separated by commas.",
    )
    return lambda command: option(options.timeout(REQUEST_LIMIT)(command))


def ask_cluster(servers: Addresses, question: Callable[[AdminClient], Awaitable[T]]) -> T:
    """The response to `question`. A cluster that is not there is reported soon, whatever --timeout says."""
    run_admin(
        servers, lambda admin: admin.describe_cluster(), 1000 * min(options.timeout_s(), options.TIMEOUT_S)
    )
    return run_admin(servers, question)


def chosen_state(where: Mapping[str, Any]) -> tuple[ClusterState, str]:
    """The state at one of the places, and what to call that place. `where` are the values of `state_options`."""
    from quorumd.pipeline.copies.log_files import parse_folders
    from quorumd.pipeline.plan import loading

    given = [name for name in ("history", "servers", "folders") if where[name]]
    source = click.get_current_context().get_parameter_source("servers")
    if len(given) > 1 and source is ParameterSource.ENVIRONMENT:
        # What is said on the command line goes before it.
        given.remove("servers")
    if len(given) != 1:
        raise click.UsageError("one of --state, --bootstrap and --from says where the state is")
    if where["history"]:
        return loading.state_of_history(where["history"]), f"history {where['history']}"
    if where["folders"]:
        return loading.state_of_logs(parse_folders(where["folders"])), f"logs {where['folders']}"
    names = ",".join(f"{host}:{port}" for host, port in where["servers"])
    return ask_cluster(where["servers"], loading.state_of_cluster), f"cluster {names}"
