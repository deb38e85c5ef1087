"""`.kafka_cleanshutdown`: marks a log directory as shut down cleanly, with the broker epoch (KIP-966).

A broker writes the file to each log directory after it has closed all logs, and removes it before it opens them. The
broker epoch, sent in the next registration, proves to the controller that the broker has lost no records since.
"""

from __future__ import annotations

import json

from quorumd.log.atomic_file import parent_directory, read_small_file, write_atomically
from quorumd.ports import Disk

FILE_NAME = ".kafka_cleanshutdown"
NO_BROKER_EPOCH = -1


def was_clean(disk: Disk, log_directory: str) -> bool:
    """Whether the directory was shut down cleanly, so that its logs need no recovery."""
    return disk.exists(f"{log_directory}/{FILE_NAME}")


def read_broker_epoch(disk: Disk, log_directory: str) -> int:
    """The broker epoch in the file, NO_BROKER_EPOCH if it is missing or invalid. Raises StorageError."""
    data = read_small_file(disk, f"{log_directory}/{FILE_NAME}")
    try:
        content = json.loads(data or b"")
    except ValueError:
        return NO_BROKER_EPOCH
    epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
    return epoch if type(epoch) is int else NO_BROKER_EPOCH


def previous_broker_epoch(epochs: list[int]) -> int:
    """The previous broker epoch to register with: the same in every log directory, else NO_BROKER_EPOCH."""
    return epochs[0] if epochs and len(set(epochs)) == 1 else NO_BROKER_EPOCH


def write_clean_shutdown(disk: Disk, log_directory: str, broker_epoch: int) -> None:
    """Write the file durably, once all logs of the directory are closed. Blocks. Raises StorageError."""
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    write_atomically(disk, f"{log_directory}/{FILE_NAME}", content.encode())


def remove_clean_shutdown(disk: Disk, log_directory: str) -> None:
    """Remove the file durably, before any log of the directory changes. Blocks. Raises OSError."""
    path = f"{log_directory}/{FILE_NAME}"
    if disk.exists(path):
        disk.remove(path)
        disk.sync_directory(parent_directory(path))
