"""`quorumd features`: show, upgrade and downgrade finalized features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.command_group import CommandGroup
from quorumd.cli.format.initial_features import feature_level, levels_by_name
from quorumd.cli.options import F
from quorumd.cli.output import JsonObject, columns, print_json

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.client.admin import AdminClient

COLUMNS = ("Feature", "Finalized", "Supported", "Name")
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
METADATA_VERSION = "metadata.version"


class FeatureChange(NamedTuple):
    """The level of a feature, before and after."""

    feature: str
    before: int
    after: int


@click.group(cls=CommandGroup)
def features() -> None:
    """Show, upgrade and downgrade the cluster's feature levels.

    \b
    Examples:
      quorumd features describe --bootstrap-server 127.0.0.1:9192
      quorumd features upgrade --release-version 4.4 --dry-run --bootstrap-server 127.0.0.1:9192
      quorumd features downgrade --feature share.version=0 --bootstrap-server 127.0.0.1:9192
    """


def _levels(command: F) -> F:
    """`--release-version`, `--feature` and `--dry-run`: the target levels, and whether to apply them."""
    for option in (
        options.output,
        options.bootstrap_server,
        click.option("--dry-run", is_flag=True, help="Show what would change without changing it."),
        click.option(
            "--feature",
            "features",
            type=feature_level,
            multiple=True,
            metavar="NAME=LEVEL",
            help="Change this feature to this level; may be repeated.",
        ),
        click.option(
            "--release-version",
            "release",
            metavar="RELEASE",
            help="Change every feature to its default level in this Kafka release, such as 4.3.",
        ),
    ):
        command = option(command)
    return command


@features.command()
@options.bootstrap_server
@options.output
def describe(servers: Addresses, output: str) -> None:
    """Show the finalized level of every feature, 0 if disabled, and the levels that the quorum supports.

    \b
    Example:
      quorumd features describe --bootstrap-server 127.0.0.1:9192
    """
    from quorumd.controller.metadata_versions import metadata_version_for_level

    found = run_admin(servers, lambda admin: admin.describe_features())
    rows = []
    for name, (lowest, highest) in sorted(found.supported.items()):
        level = found.finalized.get(name, 0)
        version = metadata_version_for_level(level) if name == METADATA_VERSION else None
        label = version.name if version is not None else None
        rows.append(
            {"feature": name, "finalized": level, "lowest": lowest, "highest": highest, "name": label}
        )
    if output == "json":
        print_json({"epoch": found.epoch, "features": rows})
        return
    cells = [
        (row["feature"], row["finalized"], f"{row['lowest']} to {row['highest']}", row["name"] or "-")
        for row in rows
    ]
    click.echo(columns(COLUMNS, cells))


@features.command()
@_levels
def upgrade(
    release: str | None, features: Sequence[tuple[str, int]], dry_run: bool, servers: Addresses, output: str
) -> None:
    """Raise the levels of features atomically.

    Every node of the quorum and every registered broker must support the new levels: upgrade their software first.
    Exit code 1 if the levels are rejected, also with --dry-run; the error states the reason per feature.

    \b
    Examples:
      quorumd features upgrade --release-version 4.4 --bootstrap-server 127.0.0.1:9192
      quorumd features upgrade --feature share.version=1 --dry-run --bootstrap-server 127.0.0.1:9192
    """
    _change(servers, _target_levels(release, features), UPGRADE, dry_run, output)


@features.command()
@_levels
@click.option("--unsafe", is_flag=True, help="Downgrade even if metadata of the higher level is lost.")
def downgrade(
    release: str | None,
    features: Sequence[tuple[str, int]],
    dry_run: bool,
    servers: Addresses,
    output: str,
    unsafe: bool,
) -> None:
    """Lower the levels of features atomically; level 0 disables a feature.

    metadata.version can be lowered only if no metadata is lost, with or without --unsafe. Exit code 1 if the levels
    are rejected.

    \b
    Examples:
      quorumd features downgrade --feature share.version=0 --bootstrap-server 127.0.0.1:9192
      quorumd features downgrade --release-version 4.1 --dry-run --bootstrap-server 127.0.0.1:9192
    """
    _change(
        servers,
        _target_levels(release, features),
        UNSAFE_DOWNGRADE if unsafe else SAFE_DOWNGRADE,
        dry_run,
        output,
    )


def _target_levels(release: str | None, features: Sequence[tuple[str, int]]) -> dict[str, int]:
    """The requested levels. Raises UsageError unless exactly one option is given."""
    from quorumd.controller.bootstrap_metadata import release_level
    from quorumd.controller.metadata_versions import default_levels

    if (release is None) == (not features):
        problem = "cannot be combined" if features else "are both missing; use one of them"
        raise click.UsageError(f"--release-version and --feature {problem}")
    if release is None:
        return levels_by_name(features)
    try:
        return default_levels(release_level(release))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _change(servers: Addresses, targets: dict[str, int], kind: int, dry_run: bool, output: str) -> None:
    async def update(admin: AdminClient) -> list[FeatureChange]:
        before = (await admin.describe_features()).finalized
        await admin.update_features(targets, kind, validate_only=dry_run)
        levels = [FeatureChange(name, before.get(name, 0), level) for name, level in sorted(targets.items())]
        return [change for change in levels if change.before != change.after]

    changes = run_admin(servers, update)
    if output == "json":
        rows: list[JsonObject] = [change._asdict() for change in changes]
        print_json({"dryRun": dry_run, "changes": rows})
        return
    what = "possible" if dry_run else "committed"
    for change in changes:
        click.echo(f"{what}: {change.feature} {change.before} -> {change.after}")
    if not changes:
        click.echo("nothing to change: the levels are already finalized")
