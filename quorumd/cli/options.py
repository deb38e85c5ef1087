"""Options that several commands share, and the values they turn into."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import click

from quorumd.cli.client_security import COMMAND_CONFIG_VARIABLE, use_client_security

if TYPE_CHECKING:
    from quorumd.ids import Endpoint, KafkaUuid

SERVERS_VARIABLE = "QUORUMD_BOOTSTRAP_SERVER"
"""The environment variable that supplies --bootstrap-server if the command line does not."""

TIMEOUT_S = 10.0
"""Long enough for the election after a leader failed, short enough for a mistyped address."""
_TIMEOUT_KEY = "quorumd.timeout"

Addresses: TypeAlias = tuple[tuple[str, int], ...]

F = TypeVar("F", bound=Callable[..., object])


def addresses(text: str) -> Addresses:
    """`host:port,...` as pairs. A click parameter type."""
    return tuple(host_and_port(part.strip()) for part in text.split(","))


def host_and_port(text: str) -> tuple[str, int]:
    """`host:port` or `[host]:port`."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise click.BadParameter(f"{text!r} is not host:port with a port from 1 to 65535")
    return host.removeprefix("[").removesuffix("]"), int(port)


def node_ids(text: str) -> tuple[int, ...]:
    """`0,3,4` as at least one node id, without duplicates. A click parameter type."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and int(part) < 2**31 for part in parts):
        raise click.BadParameter(f"{text!r} is not a list of node ids; expected something like 0,3,4")
    ids = tuple(int(part) for part in parts)
    if len(set(ids)) < len(ids):
        raise click.BadParameter(f"{text!r} lists a node twice")
    return ids


def replica_assignments(text: str) -> dict[int, tuple[int, ...]]:
    """`1:2:3,2:3:1` as the broker ids of each partition. A click parameter type."""
    found = {}
    for partition, part in enumerate(text.split(",")):
        ids = part.strip().split(":")
        if not all(each.isascii() and each.isdecimal() and int(each) < 2**31 for each in ids):
            raise click.BadParameter(
                f"{part!r} is not a list of broker ids; expected one list per partition, such as 1:2:3,2:3:1"
            )
        if len(set(ids)) < len(ids):
            raise click.BadParameter(f"{part!r} lists a broker twice")
        found[partition] = tuple(map(int, ids))
    return found


def directory_id(text: str) -> KafkaUuid:
    """22 characters as a Uuid. A click parameter type."""
    from quorumd.ids import KafkaUuid

    try:
        return KafkaUuid.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def endpoint(text: str) -> Endpoint:
    """`NAME://host:port` as an advertised endpoint. A click parameter type."""
    from quorumd.config.values import ADVERTISED_LISTENERS

    try:
        found = ADVERTISED_LISTENERS.read(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}; expected NAME://host:port") from None
    if len(found) != 1 or found[0].port == 0:
        raise click.BadParameter(f"{text!r} is not NAME://host:port with a port from 1 to 65535")
    return found[0]


def positive_integers(text: str) -> tuple[int, ...]:
    """`1,16,64` as numbers, each at least 1. A click parameter type."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise click.BadParameter(f"{text!r} is not a list of integers above 0, such as 1,16,64")
    return tuple(int(part) for part in parts)


_MS_PER_UNIT = {"ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0, "d": 86_400_000.0, "": 1000.0}


def duration(text: str) -> float:
    """`500ms`, `5s`, `2m`, `12h`, `7d`, or a number of seconds, above 0, as seconds. A click parameter type."""
    seconds = _parse_duration_ms(text) / 1000
    if seconds <= 0:
        raise click.BadParameter(f"{text!r} is not a duration above 0, such as 5s, 500ms or 2m")
    return seconds


def duration_ms(text: str) -> float:
    """`1800ms`, `2s`, `12h`, 0 included, as milliseconds: `ms` values are exact. A click parameter type."""
    milliseconds = _parse_duration_ms(text)
    if milliseconds < 0:
        raise click.BadParameter(f"{text!r} is not a duration, such as 1800ms, 2s or 12h")
    return milliseconds


def _parse_duration_ms(text: str) -> float:
    """The duration in milliseconds, -1 for a text that is not a duration."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)", text.strip())
    return float(found[1]) * _MS_PER_UNIT[found[2]] if found else -1.0


def timeout_s() -> float:
    """The --timeout of the running command in seconds; the default outside of a command."""
    context = click.get_current_context(silent=True)
    return TIMEOUT_S if context is None else float(context.meta.get(_TIMEOUT_KEY, TIMEOUT_S))


def _store_timeout(context: click.Context, parameter: click.Parameter, value: float) -> None:
    context.meta[_TIMEOUT_KEY] = value


def timeout(default: str) -> Callable[[F], F]:
    """`--timeout`, which `timeout_s` returns: the same in every command that talks to nodes."""
    return click.option(
        "--timeout",
        type=duration,
        default=default,
        show_default=True,
        metavar="DURATION",
        expose_value=False,
        callback=_store_timeout,
        help="Fail a request after this long, including time spent waiting for a leader: 5s, 500ms, 2m.",
    )


def wait_timeout(default_s: float) -> Callable[[F], F]:
    """`--wait-timeout`, as `wait_s`; None if not given."""
    return click.option(
        "--wait-timeout",
        "wait_s",
        type=duration,
        metavar="DURATION",
        help=f"With --wait: give up waiting after this long.  [default: {default_s:g}s]",
    )


def bootstrap_server(command: F) -> F:
    """`--bootstrap-server` and `--timeout`, for a command that talks to a cluster."""
    return bootstrap_server_without_timeout(timeout(f"{TIMEOUT_S:g}s")(command))


def bootstrap_server_without_timeout(command: F) -> F:
    """`--bootstrap-server` and `--command-config`, for commands with their own default of --timeout."""
    return click.option(
        "--bootstrap-server",
        "servers",
        type=addresses,
        metavar="HOST:PORT",
        required=True,
        envvar=SERVERS_VARIABLE,
        show_envvar=True,
        help="Connect to any of these nodes, separated by commas.",
    )(command_config()(command))


def command_config(*, expose: bool = False) -> Callable[[F], F]:
    """`--command-config`, which all connections of the command use; as `command_config` if `expose`."""
    return click.option(
        "--command-config",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        envvar=COMMAND_CONFIG_VARIABLE,
        show_envvar=True,
        expose_value=expose,
        callback=use_client_security,
        help="Connect with the Kafka client properties in this file: security.protocol, ssl.*, sasl.*.",
    )


def output(command: F) -> F:
    """`--output text|json`."""
    return click.option(
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Print text for people or one JSON document for scripts.",
    )(command)


def config_file(command: F) -> F:
    """`--config FILE`: the properties file of one node."""
    return click.option(
        "--config",
        "config_path",
        type=click.Path(path_type=Path),
        required=True,
        help="Read the node's settings from this properties file.",
    )(command)
