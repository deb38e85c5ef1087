"""Reads the initial state of a plan from a history, log directories or a live cluster, and sizes from files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.configs import CORDONED_LOG_DIRS
from quorumd.errors import (
    ConfigError,
    ErrorCode,
    InputIncomplete,
    MalformedMessage,
    RequestFailed,
    UnsupportedVersion,
)
from quorumd.pipeline.copies.log_files import CopyDirectory, read_directories
from quorumd.pipeline.history.cluster_fold import BROKER_TYPES, REMOVE_TOPIC, TOPIC
from quorumd.pipeline.history.history import open_history
from quorumd.pipeline.history.partition_rows import PARTITION_CHANGE, PARTITION_RECORD
from quorumd.pipeline.plan.arrays import Ints, Rows, all_in_row, any_in_row
from quorumd.pipeline.plan.state import BrokerState, ClusterState, padded_rows, rows_of
from quorumd.pipeline.source.followed import FollowedCopy, Reached, most_up_to_date
from quorumd.pipeline.source.pieces import Wanted, read_piece
from quorumd.pipeline.source.tasks import File, Piece, files_of, segments_of
from quorumd.protocol import record_batch
from quorumd.protocol.batch_header import read_header
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.primitives import read_uvarint

if TYPE_CHECKING:
    from quorumd.client.admin import AdminClient

_PLANNED_FROM = (*BROKER_TYPES, TOPIC, REMOVE_TOPIC, PARTITION_RECORD, PARTITION_CHANGE)
"""The record types from which a state is built."""
_BROKER_COLUMNS = ["broker_id", "rack", "event", "fenced", "to_offset", "log_dirs", "cordoned_log_dirs"]
_SIZE_COLUMNS = ("topic", "partition", "bytes")


def state_of_history(directory: Path) -> ClusterState:
    """Return the state at the end of a history. Raises InputIncomplete if there is no history."""
    history = open_history(directory)
    columns = ["topic", "partition", "leader", "replicas", "isr", "adding", "removing"]
    return state_of_tables(history.read("partition_current", columns), history.read("brokers"))


def state_of_tables(partitions: pa.Table, brokers: pa.Table) -> ClusterState:
    """Return the state in rows of schemas.PARTITION_CURRENT and schemas.BROKERS."""
    assigned = replicas = _rows(partitions["replicas"])
    adding, removing = _rows(partitions["adding"]), _rows(partitions["removing"])
    if removing.shape[1]:
        replicas = _without_removing(replicas, adding, removing)
    is_moving = np.zeros(len(assigned), bool)
    for changing in (adding, removing):
        is_moving |= any_in_row(changing >= 0)
    newest: dict[int, BrokerState] = {}
    rows = brokers.sort_by("from_offset").select(_BROKER_COLUMNS)
    for row in rows.to_pylist():
        newest.pop(row["broker_id"], None)
        if row["event"] != "unregister" and row["to_offset"] is None:
            directories, cordoned = row["log_dirs"] or (), row["cordoned_log_dirs"] or ()
            is_cordoned = bool(directories) and set(directories) <= set(cordoned)
            newest[row["broker_id"]] = BrokerState(
                row["broker_id"], row["rack"], bool(row["fenced"]), cordoned=is_cordoned
            )
    encoded = pc.dictionary_encode(partitions["topic"].combine_chunks())
    return ClusterState.of_indexed(
        encoded.dictionary.to_pylist(),
        encoded.indices.to_numpy(),
        partitions["partition"].to_numpy(),
        replicas,
        partitions["leader"].to_numpy(),
        newest.values(),
        assigned,
        ~is_moving & _all_in_sync(replicas, _rows(partitions["isr"])),
    )


def _rows(column: pa.ChunkedArray) -> Rows:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy().astype(np.int64)
    return rows_of(array.flatten().to_numpy().astype(np.int32), np.r_[0, np.cumsum(lengths)])


def _all_in_sync(replicas: Rows, isr: Rows) -> npt.NDArray[np.bool_]:
    """Return True for partitions whose replicas are all in the ISR."""
    found = replicas < 0
    for column in range(isr.shape[1]):
        found |= replicas == isr[:, column : column + 1]
    return np.asarray(all_in_row(found))


def _without_removing(replicas: Rows, adding: Rows, removing: Rows) -> Rows:
    """Return replicas without the replicas that ongoing reassignments remove; order and width are unchanged."""
    kept = replicas >= 0
    for column in range(removing.shape[1]):
        kept &= (replicas != removing[:, column : column + 1]) | (replicas < 0)
    found = np.where(kept, replicas, -1).astype(np.int32)
    order = np.argsort(found < 0, axis=1, kind="stable")
    return np.asarray(np.take_along_axis(found, order, axis=1))


def state_of_logs(directories: Mapping[int, str]) -> ClusterState:
    """Replay the most up-to-date copy with the node's own state machine. Raises InputIncomplete."""
    copies = {copy.node: copy for copy in read_directories(directories)}
    directory = copies[most_up_to_date(end for copy in copies.values() for end in _ends(copy)).node]
    image = ClusterImage()
    for value, place in _values(directory):
        try:
            image.apply(decode_record(value), [], value)
        except UnsupportedVersion as error:
            # An unknown type of another Kafka version. The type follows the frame version, which has one byte.
            if read_uvarint(value, 1)[0] in _PLANNED_FROM:
                raise InputIncomplete(f"{place}: {error}; use a newer quorumd") from None
        except MalformedMessage as error:
            raise InputIncomplete(f"{place}: {error}") from None
    return state_of_image(image)


def _ends(directory: CopyDirectory) -> Iterator[Reached]:
    """Yield the ends of the log and of the newest snapshot."""
    yield FollowedCopy(directory.node).look(segments_of(directory.segments))
    for snapshot in directory.snapshots[-1:]:
        yield Reached(directory.node, snapshot.end_offset, snapshot.epoch)


def _values(directory: CopyDirectory) -> Iterator[tuple[bytes, str]]:
    """Yield the metadata records of the newest snapshot and of the log after it, with their files."""
    start = 0
    if directory.snapshots:
        start = directory.snapshots[-1].end_offset
        yield from _values_of_file(files_of([directory], "snapshot")[-1], 0)
    segments = [
        file
        for file in segments_of(directory.segments)
        if file.next_offset is None or file.next_offset > start
    ]
    if segments and segments[0].expected_offset > start:
        raise InputIncomplete(
            f"{directory.path} starts at offset {segments[0].expected_offset}, "
            "but there is no snapshot of the records before it"
        )
    for segment in segments:
        yield from _values_of_file(segment, start)


def _values_of_file(file: File, start: int) -> Iterator[tuple[bytes, str]]:
    """Yield the records from offset `start` on. Raises InputIncomplete for damage."""
    for read in read_piece(Piece(file, 0, file.size), Wanted()):
        for fault in read.faults:
            raise InputIncomplete(f"{file.path} at byte {fault.position}: {fault}")
        for at in read.batches.position.tolist():
            header = read_header(read.data, at)
            if not header.is_control and header.end_offset > start:
                skipped = max(start - header.base_offset, 0)
                for value in record_batch.values(read.data, header)[skipped:]:
                    yield value, f"{file.path} at byte {read.position + at}"


def state_of_image(image: ClusterImage) -> ClusterState:
    """Return the state of an image."""
    rows = _PartitionColumns()
    for topic in image.topics.values():
        for number, partition in topic.partitions.items():
            rows.add(
                topic.name,
                number,
                partition.leader,
                partition.replicas,
                partition.isr,
                partition.adding,
                partition.removing,
            )
    brokers = [BrokerState(b.id, b.rack, b.is_fenced, cordoned=b.is_cordoned) for b in image.brokers.values()]
    return rows.state(brokers)


async def state_of_cluster(admin: AdminClient) -> ClusterState:
    """Read the state from the leader. Raises RequestFailed."""
    from quorumd.client.admin import TopicPartition

    described = await admin.describe_topics()
    ongoing = await admin.list_reassignments()
    cluster = await admin.describe_brokers()
    rows = _PartitionColumns()
    for topic in described:
        for partition in topic.partitions:
            name, number = topic.name or "", partition.partition_index
            move = ongoing.get(TopicPartition(name, number))
            rows.add(
                name,
                number,
                partition.leader_id,
                partition.replica_nodes,
                partition.isr_nodes,
                move.adding_replicas if move else (),
                move.removing_replicas if move else (),
            )
    # quorumd also lists nodes of the quorum, without an epoch; a stock node lists only brokers, all without epochs.
    registered = [broker for broker in cluster.brokers if broker.broker_epoch >= 0] or cluster.brokers
    brokers = [
        BrokerState(b.broker_id, b.rack, b.is_fenced, cordoned=await _is_cordoned(admin, b.broker_id))
        for b in registered
    ]
    return rows.state(brokers)


class _PartitionColumns:
    """Collects the partitions of a state."""

    def __init__(self) -> None:
        self._topics: list[str] = []
        self._numbers: list[int] = []
        self._leaders: list[int] = []
        self._replicas: list[list[int]] = []
        self._assigned: list[Sequence[int]] = []
        self._settled: list[bool] = []

    def add(
        self,
        topic: str,
        number: int,
        leader: int,
        replicas: Sequence[int],
        isr: Sequence[int],
        adding: Sequence[int],
        removing: Sequence[int],
    ) -> None:
        target = [replica for replica in replicas if replica not in removing]
        self._topics.append(topic)
        self._numbers.append(number)
        self._leaders.append(leader)
        self._replicas.append(target)
        self._assigned.append(replicas)
        self._settled.append(not adding and not removing and set(target) <= set(isr))

    def state(self, brokers: Iterable[BrokerState]) -> ClusterState:
        targets, assigned = padded_rows(self._replicas), padded_rows(self._assigned)
        return ClusterState.of(
            self._topics, self._numbers, targets, self._leaders, brokers, assigned, self._settled
        )


async def _is_cordoned(admin: AdminClient, broker_id: int) -> bool:
    """Return True if the broker's config cordons all of its log directories.

    Paths are not resolved here, and a stock node knows only its own configs. If this misses a cordon, the controller
    rejects the reassignment.
    """
    try:
        found = await admin.describe_configs(ConfigResourceType.BROKER, str(broker_id), [CORDONED_LOG_DIRS])
    except RequestFailed as failure:
        if failure.error_code != ErrorCode.INVALID_REQUEST:
            raise
        return False
    return any((config.value or "").strip() == "*" for config in found)


def sizes_of_file(path: Path, state: ClusterState) -> Ints:
    """Read the size in bytes of a replica per partition from a file with the columns topic, partition and bytes.

    The file is Parquet, CSV with a header, or JSON with an object per line. Raises ConfigError, also for missing
    partitions.
    """
    table = _read_sizes(path)
    missing = [name for name in _SIZE_COLUMNS if name not in table.column_names]
    if missing:
        raise ConfigError(f"{path}: no column {missing[0]!r}; expected {', '.join(_SIZE_COLUMNS)}")
    try:
        numbers = table["partition"].cast(pa.int64()).to_numpy()
        sizes = table["bytes"].cast(pa.int64()).to_numpy()
    except (pa.ArrowException, ValueError) as error:
        raise ConfigError(f"{path}: partition and bytes must be whole numbers: {error}") from None
    topics = table["topic"].cast(pa.string()).combine_chunks()
    known = pc.index_in(topics, pa.array(state.names, pa.string())).fill_null(-1).to_numpy().astype(np.int64)
    if len(sizes) and int(sizes.min()) < 0:
        raise ConfigError(f"{path}: bytes must not be negative")
    width = 1 + int(max(state.partitions.max(initial=0), numbers.max(initial=0)))
    ours = state.topics * width + state.partitions
    theirs = known * width + numbers
    usable = (known >= 0) & (numbers >= 0)
    order = np.argsort(theirs[usable], kind="stable")
    keys, values = theirs[usable][order], sizes[usable][order]
    at = np.minimum(np.searchsorted(keys, ours), max(len(keys) - 1, 0))
    found = keys[at] == ours if len(keys) else np.zeros(len(ours), bool)
    if not found.all():
        lacking = int(np.flatnonzero(~found)[0])
        where = f"{state.names[state.topics[lacking]]}-{state.partitions[lacking]}"
        raise ConfigError(f"{path}: {int((~found).sum())} partitions have no size, such as {where}")
    return np.asarray(values[at])


def _read_sizes(path: Path) -> pa.Table:
    try:
        if path.suffix == ".parquet" or path.is_dir():
            return pq.read_table(path)
        if path.suffix in (".json", ".jsonl"):
            return pyarrow.json.read_json(path)
        if path.suffix == ".csv":
            return pyarrow.csv.read_csv(path)
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    raise ConfigError(f"{path}: expected a file that ends in .parquet, .csv, .json or .jsonl")
