"""The cluster state from which the commands of `quorumd pipeline plan` start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar

import click
from click.core import ParameterSource

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.output import progress
from quorumd.errors import ConfigError

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.client.admin import AdminClient
    from quorumd.pipeline.plan.arrays import Ints
    from quorumd.pipeline.plan.files import Plan
    from quorumd.pipeline.plan.state import ClusterState

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


class StateSource(TypedDict):
    """The values of `state_options`, exactly one of which must be given."""

    directories: str | None
    servers: Addresses | None
    history: Path | None


REQUEST_LIMIT = "60s"
"""Long enough for a page of two thousand partitions from a busy node."""


def state_options(command: F) -> F:
    """`--state`, `--bootstrap-server` and `--from`, for `chosen_state`."""
    for option in (
        click.option(
            "--from",
            "directories",
            metavar="ID=DIR,...",
            help="Read the state at the end of the logs in these directories.",
        ),
        bootstrap(required=False),
        click.option(
            "--state",
            "history",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Read the state of the history in this directory (`history build`).",
        ),
    ):
        command = option(command)
    return command


def bootstrap(*, required: bool) -> Callable[[F], F]:
    """`--bootstrap-server`, `--command-config` and `--timeout`."""
    option = click.option(
        "--bootstrap-server",
        "servers",
        type=options.addresses,
        metavar="HOST:PORT",
        envvar=options.SERVERS_VARIABLE,
        show_envvar=True,
        required=required,
        help="Connect to this live cluster: any node, or several separated by commas.",
    )
    return lambda command: option(options.command_config()(options.timeout(REQUEST_LIMIT)(command)))


def request_cluster(servers: Addresses, request: Callable[[AdminClient], Awaitable[T]]) -> T:
    """Send a request. An unreachable cluster is reported early, whatever --timeout is."""
    run_admin(servers, lambda admin: admin.api_versions(), 1000 * min(options.timeout_s(), options.TIMEOUT_S))
    return run_admin(servers, request)


def chosen_state(where: StateSource) -> tuple[ClusterState, str]:
    """Return the state that the values of `state_options` name, and a name for its source."""
    from quorumd.pipeline.copies.log_files import parse_directories
    from quorumd.pipeline.plan import loading

    given = [name for name in ("history", "servers", "directories") if where[name]]
    source = click.get_current_context().get_parameter_source("servers")
    if len(given) > 1 and source is ParameterSource.ENVIRONMENT:
        # Options on the command line take precedence over the environment.
        given.remove("servers")
    if len(given) != 1:
        raise click.UsageError("use exactly one of --state, --bootstrap-server and --from")
    if where["history"]:
        return loading.state_of_history(where["history"]), f"history {where['history']}"
    if where["directories"]:
        return loading.state_of_logs(parse_directories(where["directories"])), f"logs {where['directories']}"
    servers = where["servers"] or ()
    names = ",".join(f"{host}:{port}" for host, port in servers)
    return request_cluster(servers, loading.state_of_cluster), f"cluster {names}"


def live_sizes(state: ClusterState, where: StateSource) -> Ints:
    """Return the bytes of a replica of each partition, as the brokers of the cluster report them.

    Failures of single brokers are warnings if other replicas have the sizes. Raises InputIncomplete.
    """
    from quorumd.pipeline.plan.live_sizes import Reported, request_sizes, sizes_of_partitions

    servers = where["servers"]
    if where["history"] or where["directories"] or not servers:
        raise click.UsageError("--live-sizes requires --bootstrap-server, whose brokers report the sizes")
    brokers = [broker.id for broker in state.brokers.values() if broker.registered and not broker.fenced]

    with progress(f"sizes of {len(brokers):,} brokers", only_on_terminal=True) as show:

        async def request(admin: AdminClient) -> Reported:
            return await request_sizes(admin, brokers, show)

        reported = run_admin(servers, request, silent=True)
    sizes = sizes_of_partitions(state, reported)
    for failure in reported.failures:
        click.echo(f"warning: {failure}", err=True)
    return sizes


def check_wave(plan: Plan, directory: Path, wave: int | None) -> None:
    """Raise ConfigError if the plan does not have this wave."""
    if wave is not None and wave > plan.waves:
        raise ConfigError(f"--wave {wave}: the plan in {directory} has {plan.waves} waves")
