"""The log directories of a broker besides the folder of the metadata log: locks and cluster ids."""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.errors import StorageError
from quorumd.log.folder_lock import lock_folder
from quorumd.log.meta_properties import load_meta_properties, save_meta_properties
from quorumd.ports import Disk, File


def lock_folders(disk: Disk, folders: Sequence[str]) -> list[File]:
    """Lock formatted folders. Raises StorageError, with none of them locked."""
    locks: list[File] = []
    try:
        for folder in folders:
            if not disk.exists(folder):
                raise StorageError(
                    f"there is no folder {folder}: run `quorumd format` with this file, "
                    "or start with --format-if-needed"
                )
            locks.append(lock_folder(disk, folder))
    except BaseException:
        for lock in locks:
            lock.close()
        raise
    return locks


def record_cluster_id(disk: Disk, folders: Sequence[str], cluster_id: str) -> None:
    """Save the cluster id in folders that have none. Blocks. Raises StorageError for a folder of another cluster."""
    for folder in folders:
        meta = load_meta_properties(disk, folder)
        if meta is None:
            continue  # the broker reports it as offline
        if meta.cluster_id is None:
            save_meta_properties(disk, folder, meta._replace(cluster_id=cluster_id))
        elif meta.cluster_id != cluster_id:
            raise StorageError(
                f"{folder} belongs to cluster {meta.cluster_id}, this node to cluster {cluster_id}; correct log.dirs"
            )
