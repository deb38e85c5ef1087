"""`quorumd quorum add-voter` and `remove-voter`: change one voter, given with its directory id (KIP-853)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from quorumd.cli import options
from quorumd.cli.admin_runner import run_admin
from quorumd.cli.output import print_json
from quorumd.errors import ConfigError, StorageError

if TYPE_CHECKING:
    from quorumd.cli.options import Addresses
    from quorumd.ids import Endpoint, KafkaUuid, ReplicaKey

_timeout = options.timeout("30s")


@click.command("add-voter")
@click.option("--id", "node_id", type=click.IntRange(0, 2**31 - 1), help="Add the node with this id.")
@click.option(
    "--directory-id",
    type=options.directory_id,
    metavar="UUID",
    help="Add the node's directory with this id: directory.id in its meta.properties.",
)
@click.option(
    "--endpoint",
    type=options.endpoint,
    metavar="NAME://HOST:PORT",
    help="Advertise this endpoint of the node.",
)
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="Read id, directory id and endpoint from the node's properties file and formatted log directory.",
)
@_timeout
@options.bootstrap_server_without_timeout
@options.output
def add_voter(
    node_id: int | None,
    directory_id: KafkaUuid | None,
    endpoint: Endpoint | None,
    config_path: Path | None,
    servers: Addresses,
    output: str,
) -> None:
    """Add a running node to the voters. It must be reachable and catch up with the leader within the timeout.

    \b
    Examples:
      quorumd quorum add-voter --bootstrap-server 127.0.0.1:9192 --config config/three-nodes/3.properties
      quorumd quorum add-voter --bootstrap-server 127.0.0.1:9192 --id 3 \\
        --directory-id 0pAyWDFIRL2KnTKaKOyN9Q --endpoint CONTROLLER://127.0.0.1:9195
    """
    from quorumd.ids import ReplicaKey

    given = (node_id, directory_id, endpoint)
    if config_path is not None:
        if any(each is not None for each in given):
            raise click.UsageError("--config cannot be combined with --id, --directory-id and --endpoint")
        voter, endpoint = read_voter(config_path)
    elif node_id is None or directory_id is None or endpoint is None:
        raise click.UsageError("use --config, or all of --id, --directory-id and --endpoint")
    else:
        voter = ReplicaKey(node_id, directory_id)
    where = endpoint
    run_admin(servers, lambda admin: admin.add_voter(voter, [where]))
    at = f"{where.name}://{_bracketed(where.host)}:{where.port}"
    if output == "json":
        print_json({"voterId": voter.id, "directoryId": str(voter.directory_id), "endpoints": [at]})
    else:
        click.echo(f"Added voter {voter.id} with directory id {voter.directory_id} and endpoints: {at}")


@click.command("remove-voter")
@click.option(
    "--id", "node_id", type=click.IntRange(0, 2**31 - 1), required=True, help="Remove the node with this id."
)
@click.option(
    "--directory-id",
    type=options.directory_id,
    metavar="UUID",
    required=True,
    help="Remove its directory with this id, as shown by `quorumd quorum describe replication`.",
)
@_timeout
@options.bootstrap_server_without_timeout
@options.output
def remove_voter(node_id: int, directory_id: KafkaUuid, servers: Addresses, output: str) -> None:
    """Remove a node from the voters.

    The node continues as an observer. A leader resigns once its removal is committed. The last voter cannot be
    removed.

    \b
    Example:
      quorumd quorum remove-voter --bootstrap-server 127.0.0.1:9192 --id 3 \\
        --directory-id 0pAyWDFIRL2KnTKaKOyN9Q
    """
    from quorumd.ids import ReplicaKey

    voter = ReplicaKey(node_id, directory_id)
    run_admin(servers, lambda admin: admin.remove_voter(voter))
    if output == "json":
        print_json({"voterId": node_id, "directoryId": str(directory_id)})
    else:
        click.echo(f"Removed voter {node_id} with directory id {directory_id}")


def read_voter(config_path: Path) -> tuple[ReplicaKey, Endpoint]:
    """The replica key and advertised endpoint of the node of a properties file.

    Raises ConfigError, and StorageError if the log directory is not formatted or belongs to another node.
    """
    from quorumd.config import load
    from quorumd.ids import ReplicaKey
    from quorumd.log.meta_properties import load_meta_properties
    from quorumd.runtime.disk import OsDisk

    settings = load(str(config_path)).node_settings()
    if settings.advertised.port == 0:
        raise ConfigError(
            f"{config_path}: the listener's port is 0; set the port that other nodes connect to"
        )
    disk = OsDisk(lambda callback: None)
    try:
        meta = load_meta_properties(disk, settings.data_directory)
    finally:
        disk.close()
    if meta is None:
        raise StorageError(
            f"{settings.data_directory}: not formatted; run: quorumd format --config {config_path}"
        )
    if meta.node_id != settings.node_id:
        raise StorageError(
            f"{settings.data_directory}: belongs to node {meta.node_id}, not to node {settings.node_id}"
        )
    return ReplicaKey(meta.node_id, meta.directory_id), settings.advertised


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
