"""Folds cluster-wide records: topics, brokers, epochs, voters and min.insync.replicas.

These records are few, so they are folded one by one, ordered by offset. Timestamps are microseconds since 1970.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from quorumd.ids import ZERO_UUID, KafkaUuid
from quorumd.pipeline.history.partition_rows import CLEAR_ELR, MIN_ISR, REMOVE, ReplicaContext, Setting
from quorumd.pipeline.tables.schemas import Row
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.control_record import ControlType
from quorumd.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from quorumd.protocol.messages.clear_elr_record import ClearElrRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.fence_broker_record import FenceBrokerRecord
from quorumd.protocol.messages.register_broker_record import RegisterBrokerRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from quorumd.protocol.messages.unregister_broker_record import UnregisterBrokerRecord

REGISTER_BROKER: Final = RegisterBrokerRecord.API_KEY
UNREGISTER_BROKER: Final = UnregisterBrokerRecord.API_KEY
TOPIC: Final = TopicRecord.API_KEY
CONFIG: Final = ConfigRecord.API_KEY
FENCE_BROKER: Final = FenceBrokerRecord.API_KEY
UNFENCE_BROKER: Final = UnfenceBrokerRecord.API_KEY
REMOVE_TOPIC: Final = RemoveTopicRecord.API_KEY
BROKER_CHANGE: Final = BrokerRegistrationChangeRecord.API_KEY
CLEARED_ELR: Final = ClearElrRecord.API_KEY
BROKER_TYPES: Final = (REGISTER_BROKER, UNREGISTER_BROKER, FENCE_BROKER, UNFENCE_BROKER, BROKER_CHANGE)
METADATA_TYPES: Final = (*BROKER_TYPES, TOPIC, REMOVE_TOPIC, CONFIG, CLEARED_ELR)
CONTROL_TYPES: Final = (ControlType.LEADER_CHANGE, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS)
COLUMNS: Final = (
    "offset",
    "epoch",
    "ts",
    "control",
    "type",
    "topic_id",
    "topic",
    "broker_id",
    "broker_epoch",
    "leader",
    "fenced",
    "in_controlled_shutdown",
    "data",
)
"""The columns of the source that these records need."""

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


@dataclass(slots=True)
class ClusterState:
    """The state up to an offset; the dictionaries are rows of the tables of the same names."""

    cluster_id: str | None = None
    kraft_version: int = 0
    topics: dict[bytes, Row] = field(default_factory=dict)
    """By id, including removed topics."""
    brokers: list[Row] = field(default_factory=list)
    epochs: dict[int, Row] = field(default_factory=dict)
    voters: list[Row] = field(default_factory=list)
    min_isr: dict[str, int] = field(default_factory=dict)
    """By topic name; "" for the cluster default."""
    changed: set[str] = field(default_factory=set)
    """The names of tables that have changed since they were read."""
    _open_brokers: dict[int, Row] = field(default_factory=dict)
    _ids: dict[str, bytes] = field(default_factory=dict)

    def index(self) -> None:
        """Build the indexes after the tables were filled from files."""
        self._open_brokers = {row["broker_id"]: row for row in self.brokers if row["to_offset"] is None}
        self._ids = {
            row["topic"]: topic_id for topic_id, row in self.topics.items() if row["deleted_offset"] is None
        }

    def replica_context(self) -> ReplicaContext:
        """Return the context of the partition fold before further records; `apply` extends it."""
        settings = [Setting(-1, name, value) for name, value in self.min_isr.items()]
        return ReplicaContext(settings=settings)

    def apply(self, rows: Iterable[Row], context: ReplicaContext, snapshot: bool = False) -> None:
        """Fold records, and add their effects on partitions to `context`.

        With `snapshot`, the records are from a snapshot, and describe older events.
        """
        for row in rows:
            if row["control"]:
                self._apply_control(row)
            else:
                self._apply_metadata(row, context, snapshot)

    def apply_snapshot(self, rows: list[Row], end: Row, context: ReplicaContext) -> None:
        """Fold a snapshot; what it does not contain was removed. `end` has offset, epoch and timestamp of its last
        record."""
        topics, brokers, configured = set[bytes](), set[int | None](), set[str | None]()
        for row in rows:
            if row["control"]:
                continue
            if row["type"] == TOPIC:
                topics.add(row["topic_id"])
            elif row["type"] == REGISTER_BROKER:
                brokers.add(row["broker_id"])
            elif row["type"] == CONFIG:
                configured.add(_min_isr_of(fields_of(row)))
        for topic_id, topic in self.topics.items():
            if topic["deleted_offset"] is None and topic_id not in topics:
                self._remove_topic(end | {"topic_id": topic_id}, context)
        for broker_id in [each for each in self._open_brokers if each not in brokers]:
            gone = {"type": UNREGISTER_BROKER, "broker_id": broker_id, "broker_epoch": None, "data": None}
            self._apply_broker(end | gone, snapshot=True)
        for name in [each for each in self.min_isr if each not in configured]:
            self._set_min_isr(end, name, None, context)
        self.apply(rows, context, snapshot=True)

    def _apply_metadata(self, row: Row, context: ReplicaContext, snapshot: bool) -> None:
        number = row["type"]
        if number == TOPIC:
            self._add_topic(row, snapshot)
        elif number == REMOVE_TOPIC:
            self._remove_topic(row, context)
        elif number == CONFIG:
            self._configure(row, context)
        elif number == CLEARED_ELR:
            name = fields_of(row).get("topicName") or ""
            topic_id = self._ids.get(name) if name else None
            if topic_id is not None or not name:
                _note(context, CLEAR_ELR, row, topic_id)
        elif number in BROKER_TYPES:
            self._apply_broker(row, snapshot)

    # Topics and their configs

    def _add_topic(self, row: Row, snapshot: bool) -> None:
        self.changed.add("topics")
        self._ids[row["topic"]] = row["topic_id"]
        known = self.topics.get(row["topic_id"])
        if known is not None:
            # A snapshot in the middle of a history repeats known topics.
            return
        self.topics[row["topic_id"]] = {
            "topic_id": row["topic_id"],
            "topic": row["topic"],
            "created_offset": None if snapshot else row["offset"],
            "created_ts": None if snapshot else row["ts"],
            "deleted_offset": None,
            "deleted_ts": None,
            "partitions": 0,
        }

    def _remove_topic(self, row: Row, context: ReplicaContext) -> None:
        topic = self.topics.get(row["topic_id"])
        if topic is None:
            return
        self.changed.add("topics")
        topic["deleted_offset"], topic["deleted_ts"] = row["offset"], row["ts"]
        name = topic["topic"]
        self._ids.pop(name, None)
        _note(context, REMOVE, row, row["topic_id"])
        if self.min_isr.pop(name, None) is not None:
            context.settings.append(Setting(row["offset"], name, None))

    def _configure(self, row: Row, context: ReplicaContext) -> None:
        fields = fields_of(row)
        name = _min_isr_of(fields)
        if name is not None:
            self._set_min_isr(row, name, _min_isr(fields.get("value")), context)

    def _set_min_isr(self, row: Row, name: str, value: int | None, context: ReplicaContext) -> None:
        if value is None:
            self.min_isr.pop(name, None)
        else:
            self.min_isr[name] = value
        context.settings.append(Setting(row["offset"], name, value))
        topic_id = self._ids.get(name)
        if not name or topic_id is not None:
            _note(context, MIN_ISR, row, topic_id)

    def count_partitions(self, counts: Mapping[bytes, int]) -> None:
        """Raise the partition counts of topics to at least `counts`, by topic id."""
        for topic_id, count in counts.items():
            topic = self.topics.get(topic_id)
            if topic is not None and topic["partitions"] < count:
                topic["partitions"] = count
                self.changed.add("topics")

    # Brokers

    def _apply_broker(self, row: Row, snapshot: bool) -> None:
        broker_id: int = row["broker_id"]
        before = self._open_brokers.pop(broker_id, None)
        after = _broker_after(row, before, snapshot)
        if after is None:
            return
        self.changed.add("brokers")
        if before is not None:
            before["to_offset"], before["to_ts"] = row["offset"], row["ts"]
        after["broker_id"] = broker_id
        self.brokers.append(after)
        if after["event"] != "unregister":
            self._open_brokers[broker_id] = after

    # The quorum itself

    def _apply_control(self, row: Row) -> None:
        fields = fields_of(row)
        if row["type"] == ControlType.LEADER_CHANGE:
            voters = [voter["voterId"] for voter in fields.get("voters", [])]
            granting = [voter["voterId"] for voter in fields.get("grantingVoters", [])]
            epoch = self._epoch(row["epoch"], row)
            epoch.update(leader_id=row["leader"], voters=voters, granting=granting)
            if self.kraft_version == 0 and (not self.voters or self.voters[-1]["voters"] != voters):
                self._set_voters(row, [{"voterId": voter} for voter in voters])
        elif row["type"] == ControlType.KRAFT_VERSION:
            self.kraft_version = fields.get("kRaftVersion", 0)
        elif row["type"] == ControlType.KRAFT_VOTERS:
            self.cluster_id = fields.get("clusterId") or self.cluster_id
            self._set_voters(row, fields.get("voters", []), fields.get("targetVoters"))

    def _set_voters(self, row: Row, voters: list[Row], target: list[Row] | None = None) -> None:
        ids = [voter["voterId"] for voter in voters]
        after = {
            "kraft_version": self.kraft_version,
            "voters": ids,
            "directories": [_uuid(voter.get("voterDirectoryId")) for voter in voters],
            "endpoints": [_listeners(voter.get("endpoints", [])) for voter in voters],
        }
        settled = not target and self.voters and "towards" not in self.voters[-1]["change"]
        if settled and after.items() <= self.voters[-1].items():
            # A snapshot in the middle of a history repeats known voters.
            return
        self.changed.add("voters")
        before: list[int] = []
        if self.voters:
            before = self.voters[-1]["voters"]
            self.voters[-1]["to_offset"] = row["offset"]
        changes = [f"+{voter}" for voter in ids if voter not in before]
        changes += [f"-{voter}" for voter in before if voter not in ids]
        if target:
            changes.append(f"towards {','.join(str(voter['voterId']) for voter in target)}")
        self.voters.append(
            {
                "from_offset": row["offset"],
                "to_offset": None,
                "epoch": row["epoch"],
                "from_ts": row["ts"],
                "change": " ".join(changes),
                **after,
            }
        )

    def count_epoch(self, epoch: int, first: Row, records: int, batches: int) -> None:
        """Add `records` in `batches` to an epoch; `first` has the offset and timestamp of the first of them."""
        row = self._epoch(epoch, first)
        row["records"] += records
        row["batches"] += batches
        self.changed.add("epochs")

    def _epoch(self, epoch: int, first: Row) -> Row:
        if epoch in self.epochs:
            return self.epochs[epoch]
        for row in self.epochs.values():
            if row["end_offset"] is None and row["epoch"] < epoch:
                row["end_offset"], row["end_ts"] = first["offset"], first["ts"]
        self.changed.add("epochs")
        self.epochs[epoch] = {
            "epoch": epoch,
            "leader_id": None,
            "start_offset": first["offset"],
            "end_offset": None,
            "start_ts": first["ts"],
            "end_ts": None,
            "records": 0,
            "batches": 0,
            "voters": None,
            "granting": None,
        }
        return self.epochs[epoch]


def fields_of(row: Row) -> Row:
    """Return the fields without a column."""
    found: Row = json.loads(row["data"]) if row["data"] else {}
    return found


def _note(context: ReplicaContext, kind: int, row: Row, topic_id: bytes | None) -> None:
    context.bulk_changes.add(kind, row["offset"], row["ts"], row["epoch"], topic_id)


def _min_isr_of(config: Row) -> str | None:
    """Return the topic of a min.insync.replicas config, "" for the cluster default; None for other configs."""
    name: str = config.get("resourceName", "")
    wanted = ConfigResourceType.TOPIC if name else ConfigResourceType.BROKER
    matches = config.get("name") == MIN_INSYNC_REPLICAS and config.get("resourceType") == wanted
    return name if matches else None


def _min_isr(value: str | None) -> int | None:
    """Parse a value of min.insync.replicas; None if it is removed, 1 if it is not a number, as in the controller."""
    if value is None:
        return None
    try:
        return max(1, int(value or 1))
    except ValueError:
        return 1


def _broker_after(row: Row, before: Row | None, snapshot: bool) -> Row | None:
    """Return the broker after a record; None for a change of an unknown broker."""
    fields, number = fields_of(row), row["type"]
    if number == REGISTER_BROKER:
        after = {
            "broker_epoch": row["broker_epoch"],
            "incarnation_id": _uuid(fields.get("incarnationId")),
            "rack": fields.get("rack"),
            "endpoints": [
                {name: end.get(key) for name, key in _END_POINT.items()}
                for end in fields.get("endPoints", [])
            ],
            "log_dirs": [_uuid(directory) for directory in fields.get("logDirs", [])],
            "cordoned_log_dirs": [_uuid(directory) for directory in fields.get("cordonedLogDirs") or []],
            "event": "snapshot" if snapshot else "register",
            "fenced": row["fenced"] > 0,
        }
    elif before is None:
        return None
    else:
        after = dict(before)
        after["event"], after["fenced"] = _event(row, before["fenced"])
        if fields.get("logDirs"):
            after["log_dirs"] = [_uuid(directory) for directory in fields["logDirs"]]
        if fields.get("cordonedLogDirs") is not None:
            after["cordoned_log_dirs"] = [_uuid(directory) for directory in fields["cordonedLogDirs"]]
    gone = number == UNREGISTER_BROKER
    after["from_offset"], after["from_ts"] = row["offset"], row["ts"]
    after["to_offset"], after["to_ts"] = (row["offset"], row["ts"]) if gone else (None, None)
    return after


_END_POINT = {"name": "name", "host": "host", "port": "port", "security": "securityProtocol"}


def _event(row: Row, was_fenced: bool) -> tuple[str, bool]:
    """Return the event that a change record stands for, and whether the broker is fenced after it."""
    if row["type"] == UNREGISTER_BROKER:
        return "unregister", was_fenced
    if row["fenced"]:
        return ("fence", True) if row["fenced"] > 0 else ("unfence", False)
    if row["in_controlled_shutdown"]:
        return "shutdown", was_fenced
    fields = fields_of(row)
    if fields.get("logDirs"):
        return "directories", was_fenced
    return ("other" if fields.get("cordonedLogDirs") is None else "cordon"), was_fenced


def _uuid(text: str | None) -> bytes:
    return bytes(KafkaUuid.parse(text)) if text else bytes(ZERO_UUID)


def _listeners(endpoints: list[Row]) -> str:
    return ",".join(f"{end['name']}://{end['host']}:{end['port']}" for end in endpoints)
