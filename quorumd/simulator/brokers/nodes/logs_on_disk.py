"""The logs of partitions on the disk of a machine, read from its files without a process."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from quorumd.controller.partition import PartitionId
from quorumd.ids import KafkaUuid
from quorumd.protocol.batch_scan import Ascending, scan
from quorumd.simulator.brokers.cluster_view import ClusterView
from quorumd.simulator.brokers.data_log import Record
from quorumd.simulator.brokers.nodes.observed import BatchCache, NodeLog
from quorumd.simulator.cluster import Machine

SEGMENT: Final = ".log"
_DIRECTORY: Final = re.compile(r".+-(\d+)")
_FUTURE_DIRECTORY: Final = re.compile(r".+-(\d+)\.[0-9a-f]{32}-future")
_TOPIC_ID: Final = re.compile(r"topic_id: (\S+)")


def logs_on_disk(machine: Machine, cache: BatchCache, view: ClusterView) -> dict[PartitionId, NodeLog]:
    """Return the logs of all partitions, each up to its first damaged batch. If a crash during a move has left two
    logs of a partition, the log in the directory that the metadata names counts. A future log counts if the partition
    has no other log."""
    directories: dict[str, dict[str, bytes]] = {}
    for path, content in machine.disk.contents().items():
        directory, _, name = path.rpartition("/")
        if directory.rpartition("/")[0] in machine.log_directories:
            directories.setdefault(directory, {})[name] = content
    found: dict[PartitionId, NodeLog] = {}
    for pattern in (_DIRECTORY, _FUTURE_DIRECTORY):
        current = dict(found)
        for directory, files in directories.items():
            where = _partition(directory, files, pattern)
            if where is None or where in current:
                continue
            if where not in found or _is_assigned(machine, view, where, directory):
                history = view.histories.get(where)
                found[where] = _log(files, cache, history.consumed if history is not None else [])
    return found


def _is_assigned(machine: Machine, view: ClusterView, where: PartitionId, directory: str) -> bool:
    row, directory_id = view.row(where), machine.log_directories[directory.rpartition("/")[0]]
    return row is not None and (machine.node_id, directory_id) in zip(
        row.replicas, row.directories, strict=False
    )


def _partition(directory: str, files: Mapping[str, bytes], pattern: re.Pattern[str]) -> PartitionId | None:
    """Return the partition of a directory, None if its name does not match or it has no partition.metadata yet."""
    number = pattern.fullmatch(directory.rpartition("/")[2])
    topic_id = _TOPIC_ID.search(files.get("partition.metadata", b"").decode("utf-8", "replace"))
    if number is None or topic_id is None:
        return None
    return PartitionId(KafkaUuid.parse(topic_id[1]), int(number[1]))


def _log(files: Mapping[str, bytes], cache: BatchCache, committed: Sequence[Record]) -> NodeLog:
    log, end = NodeLog(cache), -1
    for name in sorted(name for name in files if name.endswith(SEGMENT)):
        data, base_offset = files[name], int(name.removesuffix(SEGMENT))
        # The first segment may begin anywhere, others where the one before ends, even if that is empty.
        if 0 <= end < base_offset:
            break
        found = scan(data, Ascending())
        for batch in found.headers:
            if batch.base_offset >= len(log.records):
                log.add(data, batch, committed)
        if any(data[found.end :]):
            break
        end = max(base_offset, len(log.records))
    return log
