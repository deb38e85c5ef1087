"""`quorumd format`: prepare the data folder of one node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorumd.cli import options

if TYPE_CHECKING:
    from quorumd.config import Settings


@click.command("format")
@options.config_file
@click.option("--cluster-id", help="Accept only the cluster with this id.  [default: take the quorum's]")
@click.option(
    "--ignore-formatted", is_flag=True, help="Leave a folder as it is, whoever it was formatted for."
)
def format_command(config_path: Path, cluster_id: str | None, ignore_formatted: bool) -> None:
    """Prepare the data folder of one node: write its meta.properties.

    The folder gets the node id of the configuration and a directory id of its own. The cluster id is made
    by the first leader and stored as soon as the node hears of it, unless it is given here. Doing it again
    for the same node changes nothing; a folder of another node or cluster is refused with exit code 3.

    \b
    Examples:
      quorumd format --config config/three-nodes/1.properties
      quorumd format --config config/three-nodes/1.properties --cluster-id 4L6g3nShT-eMCtK--X86sw
    """
    from quorumd.config import load
    from quorumd.ids import KafkaUuid

    if cluster_id is not None:
        try:
            KafkaUuid.parse(cluster_id)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--cluster-id") from None
    click.echo(format_data_folder(load(str(config_path)), cluster_id, ignore_formatted))


def format_data_folder(
    settings: Settings, cluster_id: str | None = None, ignore_formatted: bool = False
) -> str:
    """Format the folder of `settings` if it is not yet; returns what was done, in words. Raises
    StorageError.
    """
    from quorumd.log.meta_properties import format_folder, load_meta_properties
    from quorumd.runtime.disk import OsDisk
    from quorumd.runtime.entropy import SystemEntropy

    folder = settings.node_settings().data_directory
    disk = OsDisk(lambda callback: None)
    try:
        before = load_meta_properties(disk, folder)
        meta = format_folder(
            disk,
            folder,
            node_id=settings.node_id,
            directory_id=SystemEntropy().uuid(),
            cluster_id=cluster_id,
            ignore_formatted=ignore_formatted,
        )
    finally:
        disk.close()
    done = (
        "formatted" if before is None else "was formatted already" if before == meta else "cluster id added"
    )
    cluster = meta.cluster_id or "not known yet, comes from the first leader"
    return f"{folder}: {done}; node.id {meta.node_id}, directory.id {meta.directory_id}, cluster.id {cluster}"
