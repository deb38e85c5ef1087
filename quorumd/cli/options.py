"""Options that several commands share, and the values they turn into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import click

Addresses: TypeAlias = tuple[tuple[str, int], ...]

F = TypeVar("F", bound=Callable[..., Any])


def addresses(text: str) -> Addresses:
    """`host:port,...` as pairs. A parameter type of click."""
    return tuple(_host_and_port(part.strip()) for part in text.split(","))


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise click.BadParameter(f"{text!r} is not host:port with a port from 1 to 65535")
    return host.removeprefix("[").removesuffix("]"), int(port)


def positive_integers(text: str) -> tuple[int, ...]:
    """`1,16,64` as numbers, each at least 1. A parameter type of click."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise click.BadParameter(f"{text!r} is not a list of whole numbers above 0, such as 1,16,64")
    return tuple(int(part) for part in parts)


def bootstrap_server(command: F) -> F:
    """`--bootstrap-server`: any node of the cluster, or several."""
    return click.option(
        "--bootstrap-server",
        "servers",
        type=addresses,
        metavar="HOST:PORT",
        required=True,
        help="Any node, or several separated by commas.",
    )(command)


def output(command: F) -> F:
    """`--output text|json`."""
    return click.option(
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="json: one document on stdout, for scripts.",
    )(command)


def config_file(command: F) -> F:
    """`--config FILE`: the properties file of one node."""
    return click.option(
        "--config",
        "config_path",
        type=click.Path(path_type=Path),
        required=True,
        help="The properties file of the node.",
    )(command)
