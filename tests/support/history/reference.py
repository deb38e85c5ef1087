"""A reference for the fold: computes the states of partitions record by record, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.clear_elr_record import ClearElrRecord
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.remove_topic_record import RemoveTopicRecord
from quorumd.protocol.messages.topic_record import TopicRecord

Key = tuple[bytes, int]
LISTS = ("replicas", "isr", "elr", "last_known_elr", "adding", "removing")


class Logged(NamedTuple):
    """A metadata record and its place in the log."""

    offset: int
    epoch: int
    ts_us: int
    message: Any


class NaiveHistory:
    """Computes rows of partition_states, with times in microseconds: `closed` ones, and the `open` one per
    partition."""

    def __init__(self) -> None:
        self.closed: list[dict[str, Any]] = []
        self.open: dict[Key, dict[str, Any]] = {}
        self.names: dict[bytes, str] = {}
        self.min_isr: dict[str, int] = {}

    def apply(self, log: Iterable[Logged]) -> None:
        for logged in log:
            message = logged.message
            if isinstance(message, TopicRecord):
                self.names[message.topic_id] = message.name
            elif isinstance(message, RemoveTopicRecord):
                self.remove(message.topic_id, logged)
            elif isinstance(message, PartitionRecord):
                self.create(message, logged)
            elif isinstance(message, PartitionChangeRecord):
                self.change(message, logged)
            elif isinstance(message, ClearElrRecord):
                self.clear(message.topic_name, logged)
            elif isinstance(message, ConfigRecord) and message.name == "min.insync.replicas":
                self.configure(message, logged)

    def create(self, message: PartitionRecord, logged: Logged) -> None:
        key = (message.topic_id, message.partition_id)
        self.become(
            key,
            logged,
            {
                "leader": message.leader,
                "leader_epoch": message.leader_epoch,
                "partition_epoch": message.partition_epoch,
                "replicas": message.replicas,
                "isr": message.isr,
                "elr": message.eligible_leader_replicas or [],
                "last_known_elr": message.last_known_elr or [],
                "adding": message.adding_replicas,
                "removing": message.removing_replicas,
                "recovering": message.leader_recovery_state == 1,
            },
        )

    def change(self, message: PartitionChangeRecord, logged: Logged) -> None:
        key = (message.topic_id, message.partition_id)
        if key not in self.open:
            return
        state = self.facts(key)
        reported = {
            "replicas": message.replicas,
            "isr": message.isr,
            "elr": message.eligible_leader_replicas,
            "last_known_elr": message.last_known_elr,
            "adding": message.adding_replicas,
            "removing": message.removing_replicas,
        }
        state |= {name: value for name, value in reported.items() if value is not None}
        state["partition_epoch"] += 1
        if message.leader != -2:
            state["leader"] = message.leader
            state["leader_epoch"] += 1
        if message.leader_recovery_state != -1:
            state["recovering"] = message.leader_recovery_state == 1
        self.become(key, logged, state)

    def facts(self, key: Key) -> dict[str, Any]:
        names = ("leader", "leader_epoch", "partition_epoch", *LISTS, "recovering")
        return {name: self.open[key][name] for name in names}

    def clear(self, topic: str, logged: Logged) -> None:
        for key in list(self.open):
            state = self.facts(key)
            if topic in ("", self.open[key]["topic"]) and (state["elr"] or state["last_known_elr"]):
                state["partition_epoch"] += 1
                self.become(key, logged, state | {"elr": [], "last_known_elr": []})

    def remove(self, topic_id: KafkaUuid, logged: Logged) -> None:
        self.min_isr.pop(self.names[topic_id], None)
        for key in [key for key in self.open if key[0] == topic_id]:
            state = self.facts(key)
            nothing: dict[str, Any] = {name: [] for name in LISTS}
            self.become(key, logged, state | nothing | {"leader": -1, "recovering": False}, "deleted")
            end = {"to_offset": logged.offset, "to_ts": logged.ts_us}
            self.closed.append(self.open.pop(key) | end)

    def configure(self, message: ConfigRecord, logged: Logged) -> None:
        is_default = (message.resource_type, message.resource_name) == (4, "")
        if not is_default and (message.resource_type != 2 or not message.resource_name):
            return
        name = message.resource_name
        if message.value is None:
            self.min_isr.pop(name, None)
        else:
            self.min_isr[name] = max(
                1, int(message.value or 1) if message.value.strip("-").isdecimal() else 1
            )
        for key in list(self.open):
            state = self.facts(key)
            if self.is_under(self.open[key]["topic"], state) != self.open[key]["under_min_isr"]:
                self.become(key, logged, state, "min_isr")

    def is_under(self, topic: str, state: dict[str, Any]) -> bool:
        required = self.min_isr.get(topic, self.min_isr.get("", 1))
        return len(state["isr"]) < min(required, len(state["replicas"]))

    def become(self, key: Key, logged: Logged, state: dict[str, Any], cause: str | None = None) -> None:
        before = self.open.get(key)
        if before is not None:
            self.closed.append(before | {"to_offset": logged.offset, "to_ts": logged.ts_us})
        topic = self.names[key[0]]
        is_removed = cause == "deleted"
        self.open[key] = state | {
            "topic_id": key[0],
            "topic": topic,
            "partition": key[1],
            "from_offset": logged.offset,
            "from_ts": logged.ts_us,
            "to_offset": None,
            "to_ts": None,
            "epoch": logged.epoch,
            "cause": cause or why(before, state),
            "under_replicated": len(state["isr"]) < len(state["replicas"]),
            "under_min_isr": self.is_under(topic, state),
            "leader_before": before["leader"] if before else -1,
            "isr_left": len([i for i in before["isr"] if i not in state["isr"]])
            if before and not is_removed
            else 0,
            "isr_joined": len([i for i in state["isr"] if i not in before["isr"]]) if before else 0,
        }


def why(before: dict[str, Any] | None, after: dict[str, Any]) -> str:
    """Return the cause of a record's state."""
    if before is None:
        return "created"
    leader, isr = after["leader"], after["isr"]
    elected = leader not in (-1, before["leader"])
    if after["recovering"] and (elected or not before["recovering"]):
        return "unclean"
    if elected and isr == [leader] and leader not in before["isr"] + before["elr"]:
        return "unclean"
    moves = {name: after[name] for name in ("adding", "removing")}
    if moves != {name: before[name] for name in moves}:
        if any(moves.values()):
            return "reassign_start"
        target = set(before["replicas"]) - set(before["removing"])
        return "reassign_done" if set(after["replicas"]) == target else "reassign_cancelled"
    if leader != before["leader"]:
        return "leader"
    if set(before["isr"]) - set(isr):
        return "isr_shrink"
    if set(isr) - set(before["isr"]):
        return "isr_expand"
    if (before["elr"], before["last_known_elr"]) != (after["elr"], after["last_known_elr"]):
        return "elr"
    return "other"
