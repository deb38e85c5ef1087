"""`--release-version`, `--feature` and `--add-scram`: the initial metadata of a new cluster."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord

SALT_BYTES = 24

F = TypeVar("F", bound=Callable[..., object])


def feature_level(text: str) -> tuple[str, int]:
    """`NAME=LEVEL`. A click parameter type."""
    name, equals, level = (part.strip() for part in text.partition("="))
    if not equals or not name or not (level.isascii() and level.isdecimal() and int(level) < 2**15):
        raise click.BadParameter(f"{text!r} is not NAME=LEVEL, such as group.version=1")
    return name, int(level)


def scram_credential(text: str) -> UserScramCredentialRecord:
    """`MECHANISM=[name=...,password=...]`. A click parameter type."""
    from quorumd.controller.scram_credentials import parse_credential

    try:
        return parse_credential(text, lambda: secrets.token_bytes(SALT_BYTES))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def feature_options(command: F) -> F:
    """`--release-version` and `--feature`, as `release` and `features`."""
    for option in (
        click.option(
            "--feature",
            "features",
            type=feature_level,
            multiple=True,
            metavar="NAME=LEVEL",
            help="Set this feature level in a new cluster, such as group.version=1; may be repeated.",
        ),
        click.option(
            "--release-version",
            "release",
            metavar="RELEASE",
            help="Set the feature levels of this Kafka release in a new cluster, such as 4.1.  [default: newest]",
        ),
    ):
        command = option(command)
    return command


def levels_by_name(features: Sequence[tuple[str, int]]) -> dict[str, int]:
    """The levels by feature. Raises UsageError for a duplicate feature."""
    levels = dict(features)
    if len(levels) < len(features):
        raise click.UsageError("--feature lists a feature twice")
    return levels


def bootstrap_content(
    release: str | None = None,
    features: Sequence[tuple[str, int]] = (),
    credentials: Sequence[UserScramCredentialRecord] = (),
) -> bytes:
    """The content of `bootstrap.checkpoint`. Raises UsageError for levels that a new cluster cannot have."""
    from quorumd.controller.bootstrap_metadata import feature_records, initial_feature_levels
    from quorumd.log.bootstrap_file import encode_bootstrap
    from quorumd.protocol.metadata_record import encode_record

    try:
        levels = initial_feature_levels(release, levels_by_name(features))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    frames = [encode_record(record, 0) for record in (*feature_records(levels), *credentials)]
    return encode_bootstrap(frames, int(time.time() * 1000))
