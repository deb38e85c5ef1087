"""`.kafka_cleanshutdown`: the epoch of the broker that stopped cleanly on a log directory (KIP-966).

A broker writes it into each directory after it has closed all logs, and removes it before it opens them. The epoch
proves to the controller that nothing was lost since that incarnation.
"""

from __future__ import annotations

import json

from quorumd.log.atomic_file import parent_folder, read_small_file, write_atomically
from quorumd.ports import Disk

FILE_NAME = ".kafka_cleanshutdown"
NO_BROKER_EPOCH = -1


def was_clean(disk: Disk, log_directory: str) -> bool:
    """Whether the broker that last used the directory stopped cleanly: its logs need no recovery."""
    return disk.exists(f"{log_directory}/{FILE_NAME}")


def read_broker_epoch(disk: Disk, log_directory: str) -> int:
    """The epoch in the file, NO_BROKER_EPOCH if it is missing or unreadable. Raises StorageError."""
    data = read_small_file(disk, f"{log_directory}/{FILE_NAME}")
    try:
        content = json.loads(data or b"")
    except ValueError:
        return NO_BROKER_EPOCH
    epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
    return epoch if type(epoch) is int else NO_BROKER_EPOCH


def previous_broker_epoch(epochs: list[int]) -> int:
    """The epoch for the registration: that of all log directories, NO_BROKER_EPOCH if they differ."""
    return epochs[0] if epochs and len(set(epochs)) == 1 else NO_BROKER_EPOCH


def write_clean_shutdown(disk: Disk, log_directory: str, broker_epoch: int) -> None:
    """Write the file durably, after all logs of the directory are closed. Blocks. Raises StorageError."""
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    write_atomically(disk, f"{log_directory}/{FILE_NAME}", content.encode())


def remove_clean_shutdown(disk: Disk, log_directory: str) -> None:
    """Remove the file durably, before any log of the directory changes. Blocks. Raises OSError."""
    path = f"{log_directory}/{FILE_NAME}"
    if disk.exists(path):
        disk.remove(path)
        disk.sync_directory(parent_folder(path))
