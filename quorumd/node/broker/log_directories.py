"""The log directories of a broker besides the directory of the metadata log: locks and cluster ids."""

from __future__ import annotations

from collections.abc import Sequence

from quorumd.errors import DirectoryInUse, StorageError
from quorumd.log.directory_lock import lock_directory
from quorumd.log.meta_properties import load_meta_properties, save_meta_properties
from quorumd.ports import Disk, File


def lock_directories(disk: Disk, directories: Sequence[str]) -> list[File]:
    """Lock the directories that can be used; the broker reports the others as offline. Raises DirectoryInUse, and
    then leaves none of them locked."""
    locks: list[File] = []
    for directory in directories:
        try:
            locks.append(lock_directory(disk, directory))
        except DirectoryInUse:
            for lock in locks:
                lock.close()
            raise
        except StorageError:
            continue
    return locks


def record_cluster_id(disk: Disk, directories: Sequence[str], cluster_id: str) -> None:
    """Save the cluster id in the directories that have none. Blocks.

    Skips directories that cannot be used, which the broker reports as offline. Raises StorageError if a directory
    belongs to another cluster.
    """
    for directory in directories:
        try:
            meta = load_meta_properties(disk, directory)
            if meta is not None and meta.cluster_id is None:
                save_meta_properties(disk, directory, meta._replace(cluster_id=cluster_id))
        except StorageError:
            continue
        if meta is not None and meta.cluster_id not in (None, cluster_id):
            raise StorageError(
                f"{directory} belongs to cluster {meta.cluster_id}, this node to cluster {cluster_id}; "
                "correct log.dirs"
            )
