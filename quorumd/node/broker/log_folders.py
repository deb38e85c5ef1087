"""The log directories of a broker besides the folder of the metadata log: locks and cluster ids."""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.errors import FolderInUse, StorageError
from quorumd.log.folder_lock import lock_folder
from quorumd.log.meta_properties import load_meta_properties, save_meta_properties
from quorumd.ports import Disk, File


def lock_folders(disk: Disk, folders: Sequence[str]) -> list[File]:
    """Lock the folders that can be used; the broker reports the others as offline. Raises FolderInUse, with none of
    them locked."""
    locks: list[File] = []
    for folder in folders:
        try:
            locks.append(lock_folder(disk, folder))
        except FolderInUse:
            for lock in locks:
                lock.close()
            raise
        except StorageError:
            continue
    return locks


def record_cluster_id(disk: Disk, folders: Sequence[str], cluster_id: str) -> None:
    """Save the cluster id in folders that have none. Blocks. Raises StorageError for a folder of another cluster.

    The broker reports a folder that cannot be used as offline.
    """
    for folder in folders:
        try:
            meta = load_meta_properties(disk, folder)
            if meta is not None and meta.cluster_id is None:
                save_meta_properties(disk, folder, meta._replace(cluster_id=cluster_id))
        except StorageError:
            continue
        if meta is not None and meta.cluster_id not in (None, cluster_id):
            raise StorageError(
                f"{folder} belongs to cluster {meta.cluster_id}, this node to cluster {cluster_id}; correct log.dirs"
            )
