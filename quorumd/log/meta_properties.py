"""`meta.properties`: the node id, directory id and cluster id of a data directory. `quorumd format` writes it.

version=1
cluster.id=<Uuid>         absent until the first leader or an operator has set one
node.id=1
directory.id=<Uuid>       unique to this directory (KIP-853)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from quorumd.errors import CorruptLog, StorageError
from quorumd.ids import METADATA_PARTITION, METADATA_TOPIC, ZERO_UUID, KafkaUuid
from quorumd.log.atomic_file import parent_directory, read_small_file, write_atomically
from quorumd.log.partition_metadata import ensure_partition_metadata
from quorumd.log.quorum_state_file import Founder, QuorumStateFile, SavedState
from quorumd.log.remedies import REFORMAT_REMEDY
from quorumd.ports import Disk
from quorumd.protocol.batch_header import HEADER_SIZE

FILE_NAME = "meta.properties"
BOOTSTRAP_FILE = "bootstrap.checkpoint"
PARTITION_DIRECTORY = f"{METADATA_TOPIC}-{METADATA_PARTITION}"
_VERSION = "1"
_MAX_CLUSTER_ID_BYTES = 0x7FFF
"""Maximum length of a string in a message (int16)."""
_ESCAPED = re.compile(r"\\(.)")


class MetaProperties(NamedTuple):
    """The identity of a data directory."""

    node_id: int
    directory_id: KafkaUuid
    cluster_id: str | None = None


def partition_directory(data_directory: str) -> str:
    """The directory of the metadata partition."""
    return f"{data_directory}/{PARTITION_DIRECTORY}"


def load_meta_properties(disk: Disk, data_directory: str) -> MetaProperties | None:
    """The identity of a directory, None if it is not formatted. Raises CorruptLog for an invalid file."""
    path = f"{data_directory}/{FILE_NAME}"
    data = read_small_file(disk, path)
    if data is None:
        return None
    properties = _properties(data.decode("utf-8", "replace"))
    try:
        if (version := properties.get("version")) != _VERSION:
            raise ValueError(f"version is {version!r}, only version {_VERSION} is supported")
        for key in ("node.id", "directory.id"):
            if key not in properties:
                raise ValueError(f"{key} is missing")
        node_id = properties["node.id"]
        if not re.fullmatch("[0-9]{1,10}", node_id) or int(node_id) >= 2**31:
            raise ValueError(f"node.id is {node_id!r}, expected a number from 0 to {2**31 - 1}")
        directory_id = KafkaUuid.parse(properties["directory.id"])
        if len(properties.get("cluster.id", "").encode()) > _MAX_CLUSTER_ID_BYTES:
            raise ValueError(f"cluster.id has more than {_MAX_CLUSTER_ID_BYTES} bytes")
    except ValueError as fault:
        raise CorruptLog(f"{path}: {fault}; restore the file, or, {REFORMAT_REMEDY}") from None
    return MetaProperties(int(node_id), directory_id, properties.get("cluster.id") or None)


def save_meta_properties(disk: Disk, data_directory: str, meta: MetaProperties) -> None:
    """Replace the file durably. Blocks. Raises what `write_atomically` raises."""
    lines = [f"version={_VERSION}"]
    if meta.cluster_id is not None:
        lines.append(f"cluster.id={_escape(meta.cluster_id)}")
    lines += [f"node.id={meta.node_id}", f"directory.id={meta.directory_id}", ""]
    write_atomically(disk, f"{data_directory}/{FILE_NAME}", "\n".join(lines).encode())


def format_directory(
    disk: Disk,
    data_directory: str,
    *,
    node_id: int,
    directory_id: KafkaUuid,
    cluster_id: str | None = None,
    ignore_formatted: bool = False,
    founders: Sequence[Founder] | None = None,
    bootstrap: bytes | None = None,
    has_metadata: bool = True,
) -> MetaProperties:
    """Format a data directory for a node and return its identity.

    `founders`: the replicas that may bootstrap a quorum (see `quorumd.node.identity.founding`), only for a directory
    without records; the node's own entry has `directory_id`, or zero for the directory's existing one.
    `bootstrap`: the content of `bootstrap.checkpoint`, written to a directory that was not formatted before.
    `has_metadata`: whether the metadata log is in this directory, and not only partitions of a broker.

    A formatted directory keeps its identity. Formatting it again for the same node and cluster only adds a missing
    cluster id. Raises StorageError for another node or cluster, unless `ignore_formatted` is set: then the
    directory's identity is returned. Raises CorruptLog for an invalid file in the directory.
    """
    _create_directories(disk, data_directory, has_metadata)
    found = load_meta_properties(disk, data_directory)
    meta = found
    if meta is None:
        meta = MetaProperties(node_id, directory_id, cluster_id)
    elif not _is_for(meta, node_id, cluster_id):
        if ignore_formatted:
            return meta
        raise StorageError(
            f"{data_directory} belongs to {_owner(meta.node_id, meta.cluster_id)}, not to "
            f"{_owner(node_id, cluster_id)}; choose another directory, keep this one with --ignore-formatted, or "
            "delete it only if this replica's data and vote are no longer needed"
        )
    elif meta.cluster_id is None and cluster_id is not None:
        meta = meta._replace(cluster_id=cluster_id)
    if founders is not None:
        _save_founders(disk, data_directory, meta, founders)
    if meta == found:
        return meta
    if found is None and bootstrap is not None:
        write_atomically(disk, f"{data_directory}/{BOOTSTRAP_FILE}", bootstrap)
    if has_metadata:
        ensure_partition_metadata(disk, partition_directory(data_directory))
    # Written last: its presence marks the directory as formatted.
    save_meta_properties(disk, data_directory, meta)
    return meta


def _create_directories(disk: Disk, data_directory: str, has_metadata: bool) -> None:
    try:
        _make_directory_durable(disk, data_directory)
        if has_metadata:
            disk.make_directory(partition_directory(data_directory))
    except OSError as cause:
        raise StorageError(f"{data_directory} cannot be created: {cause}") from cause


def _save_founders(
    disk: Disk, data_directory: str, meta: MetaProperties, founders: Sequence[Founder]
) -> None:
    """Save the founders. Raises StorageError if the directory already has the state of a quorum, or a directory id
    that differs from its entry."""
    completed = []
    for founder in founders:
        if founder.voter_id == meta.node_id:
            if founder.directory_id not in (ZERO_UUID, meta.directory_id):
                raise StorageError(
                    f"{data_directory} has directory id {meta.directory_id}, but --initial-controllers names "
                    f"{founder.directory_id}; use the id of this directory"
                )
            founder = founder._replace(directory_id=meta.directory_id)
        completed.append(founder)
    file = QuorumStateFile(disk, partition_directory(data_directory))
    state = file.load() or SavedState(broker_id=meta.node_id)
    if state.founders == tuple(completed):
        return
    if (
        state.leader_epoch > 0
        or state.current_voters
        or _has_records(disk, partition_directory(data_directory))
    ):
        raise StorageError(
            f"{data_directory} has records or an epoch of a quorum; only a directory without either can found one; "
            "start the node without formatting, or choose another directory"
        )
    file.save(state._replace(founders=tuple(completed)))


def _has_records(disk: Disk, directory: str) -> bool:
    """Whether the directory has a snapshot or a segment with records."""
    for name in disk.list_directory(directory):
        if name.endswith(".checkpoint"):
            return True
        if name.endswith(".log"):
            file = disk.open(f"{directory}/{name}")
            try:
                if any(file.read_at(0, HEADER_SIZE)):
                    return True
            finally:
                file.close()
    return False


def _is_for(meta: MetaProperties, node_id: int, cluster_id: str | None) -> bool:
    """Whether a directory has this node id, and this cluster id unless one of the two is unknown."""
    return meta.node_id == node_id and (
        meta.cluster_id is None or cluster_id is None or meta.cluster_id == cluster_id
    )


def _owner(node_id: int, cluster_id: str | None) -> str:
    return f"node {node_id}" if cluster_id is None else f"node {node_id} of cluster {cluster_id}"


def _make_directory_durable(disk: Disk, directory: str) -> None:
    """Create a directory and its parents durably."""
    missing = []
    parent = directory
    while parent and not disk.exists(parent):
        missing.append(parent)
        parent = parent.rpartition("/")[0]
    disk.make_directory(directory)
    for created in reversed(missing):
        disk.sync_directory(parent_directory(created))


def _properties(text: str) -> dict[str, str]:
    """Parse the subset of a Java properties file that `meta.properties` uses, without continued lines."""
    found = {}
    for line in text.splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            key, _, value = line.partition("=")
            found[key.rstrip()] = _ESCAPED.sub(r"\1", value.lstrip())
    return found


def _escape(value: str) -> str:
    return re.sub(r"([\\=:#!])", r"\\\1", value)
