"""`quorumd format`: format the log directories of one node."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from quorumd.cli import options
from quorumd.cli.format.initial_controllers import founders_for, initial_controllers
from quorumd.cli.format.initial_features import bootstrap_content, feature_options, scram_credential
from quorumd.cli.output import JsonObject, print_json

if TYPE_CHECKING:
    from quorumd.config import Settings
    from quorumd.log.meta_properties import MetaProperties
    from quorumd.log.quorum_state_file import Founder
    from quorumd.protocol.messages.user_scram_credential_record import UserScramCredentialRecord


class FormatResult(NamedTuple):
    """The outcome of formatting a log directory."""

    directory: str
    outcome: str
    meta: MetaProperties

    def row(self) -> JsonObject:
        """The result in `--output json`; `clusterId` is null until the first leader generates it."""
        return {
            "directory": self.directory,
            "outcome": self.outcome,
            "nodeId": self.meta.node_id,
            "directoryId": str(self.meta.directory_id),
            "clusterId": self.meta.cluster_id,
        }

    def __str__(self) -> str:
        meta, cluster = self.meta, self.meta.cluster_id or "unknown until the first leader generates it"
        ids = f"node.id {meta.node_id}, directory.id {meta.directory_id}, cluster.id {cluster}"
        return f"{self.directory}: {self.outcome}; {ids}"


@click.command("format")
@options.config_file
@click.option("--cluster-id", help="Join only the cluster with this id.  [default: the quorum's]")
@click.option(
    "--ignore-formatted",
    is_flag=True,
    help="Succeed without changes if the directory is formatted, even if it belongs to another node or cluster.",
)
@click.option(
    "--standalone", is_flag=True, help="Let this node found a new quorum with itself as the only voter."
)
@click.option(
    "--initial-controllers",
    "controllers",
    type=initial_controllers,
    metavar="ID@HOST:PORT:DIRECTORY_ID,...",
    help="Let these nodes, including this one, found a new quorum; format each of them with the same list.",
)
@click.option(
    "--no-initial-controllers", is_flag=True, help="Let this node only join a quorum, never found one."
)
@feature_options
@click.option(
    "--add-scram",
    "credentials",
    type=scram_credential,
    multiple=True,
    metavar="MECHANISM=[...]",
    help="Create this SCRAM user in a new cluster; may be repeated.",
)
@options.output
def format_command(
    config_path: Path,
    cluster_id: str | None,
    ignore_formatted: bool,
    standalone: bool,
    controllers: tuple[Founder, ...] | None,
    no_initial_controllers: bool,
    release: str | None,
    features: Sequence[tuple[str, int]],
    credentials: Sequence[UserScramCredentialRecord],
    output: str,
) -> None:
    """Format the log directories of one node: write meta.properties into each directory of log.dirs.

    A directory gets the configured node id and a new directory id. Unless --cluster-id is given, the first leader
    generates the cluster id, and the node saves it once it is committed. Formatting again for the same node
    changes nothing; a directory of another node or cluster is rejected with exit code 3.

    A node always joins an existing quorum. If there is none, the nodes of quorum.voters found one once all of
    them are running with empty logs; with --standalone or --initial-controllers they do not wait for that. Use
    these two options once, for a new cluster, and never for a replacement disk.

    The first leader decides the initial metadata of a new cluster: give every node the same options. A broker
    registers only if it supports the metadata version: for brokers of Kafka 4.1, use --release-version 4.1.

    \b
    Examples:
      quorumd format --config config/single-node.properties --standalone
      quorumd format --config config/three-nodes/1.properties
      quorumd format --config config/three-nodes/1.properties --cluster-id 4L6g3nShT-eMCtK--X86sw
      quorumd format --config config/single-node.properties --standalone --release-version 4.1
      quorumd format --config config/single-node.properties --standalone --feature share.version=0 \\
        --add-scram 'SCRAM-SHA-256=[name=alice,password=alice-secret]'
    """
    from quorumd.config import load
    from quorumd.ids import KafkaUuid

    if cluster_id is not None:
        try:
            KafkaUuid.parse(cluster_id)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--cluster-id") from None
    settings = load(str(config_path))
    founders = founders_for(settings, standalone, controllers, no_initial_controllers)
    bootstrap = bootstrap_content(release, features, credentials)
    first, *others = format_data_directories(settings, cluster_id, ignore_formatted, founders, bootstrap)
    if output == "json":
        print_json(first.row() | ({"logDirectories": [each.row() for each in others]} if others else {}))
    else:
        click.echo("\n".join(map(str, (first, *others))))


def format_data_directories(
    settings: Settings,
    cluster_id: str | None = None,
    ignore_formatted: bool = False,
    founders: tuple[Founder, ...] | None = None,
    bootstrap: bytes | None = None,
    skips_unusable: bool = False,
) -> list[FormatResult]:
    """Format the log directories of `settings` that are not formatted yet, the one with the metadata log first.

    `bootstrap` holds the initial records of a new cluster. Raises StorageError, also if a node is running on a
    directory. With `skips_unusable`, other errors are ignored except in the directory of the metadata log, since a
    broker can run without the others.
    """
    from quorumd.errors import DirectoryInUse, StorageError
    from quorumd.ids import ZERO_UUID
    from quorumd.runtime.entropy import SystemEntropy

    named = [founder.directory_id for founder in founders or () if founder.voter_id == settings.node_id]
    results: list[FormatResult] = []
    for directory in settings.node_settings().data_directories:
        has_metadata = not results
        format_one = partial(
            format_directory_with_lock,
            node_id=settings.node_id,
            cluster_id=cluster_id,
            ignore_formatted=ignore_formatted,
        )
        if has_metadata:
            directory_id = next((id for id in named if id != ZERO_UUID), SystemEntropy().uuid())
            result = format_one(directory, directory_id=directory_id, founders=founders, bootstrap=bootstrap)
        else:
            try:
                result = format_one(directory, directory_id=SystemEntropy().uuid(), has_metadata=False)
            except StorageError as unusable:
                if skips_unusable and not isinstance(unusable, DirectoryInUse):
                    continue
                raise
        results.append(result)
    return results


def format_directory_with_lock(directory: str, **options: Any) -> FormatResult:
    """Format one directory with the options of `format_directory`, unless a node is running on it."""
    from quorumd.log.directory_lock import lock_directory
    from quorumd.log.meta_properties import format_directory, load_meta_properties
    from quorumd.runtime.disk import OsDisk

    disk = OsDisk(lambda callback: None)
    lock = None
    try:
        lock = lock_directory(disk, directory) if disk.exists(directory) else None
        before = load_meta_properties(disk, directory)
        meta = format_directory(disk, directory, **options)
    finally:
        if lock is not None:
            lock.close()
        disk.close()
    outcome = "formatted" if before is None else "already formatted" if before == meta else "cluster id added"
    return FormatResult(directory, outcome, meta)
