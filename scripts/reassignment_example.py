#!/usr/bin/env python3
"""`make reassignment-example`: the two worked examples of the replication description, on real processes under load.

The cluster has a controller (node 0) and brokers 1 to 5. Brokers are started and stopped so that the partition begins
as in the description; then `quorumd partitions reassign` moves it while a producer writes with acks=all. The script
prints a row per record of the metadata log: replicas, ISR, leader, leader epoch (le), partition epoch (pe), added and
removed replicas.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from quorumd.cli.local_cluster import HOST, is_free
from quorumd.protocol.batch_scan import Gapless, scan
from quorumd.protocol.messages.partition_change_record import PartitionChangeRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.topic_record import TopicRecord
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import records
from quorumd.protocol.wire import Message

BROKERS = range(1, 6)
BASE_PORTS = range(19_000, 32_000, 10)
PATIENCE_S = 120.0
ADMIN: dict[str, Any] = {"log_level": 0, "reconnect.backoff.max.ms": 200}
NO_CHANGE = -2
"""The leader in a PartitionChangeRecord that does not change it."""


class State(NamedTuple):
    """A partition after one record. The order of the ISR has no meaning."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    def __str__(self) -> str:
        lists = [",".join(map(str, each)) or "-" for each in (self.replicas, sorted(self.isr))]
        changes = [",".join(map(str, each)) or "-" for each in (self.adding, self.removing)]
        numbers = [f"{each:>6}" for each in (self.leader, self.leader_epoch, self.partition_epoch)]
        return f"{lists[0]:<12}{lists[1]:<12}{''.join(numbers)}  {changes[0]:<8}{changes[1]}"


HEADING = f"{'replicas':<12}{'ISR':<12}{'leader':>6}{'le':>6}{'pe':>6}  {'adding':<8}removing"
EXAMPLES: dict[str, tuple[State, ...]] = {
    "[1,2,3] -> [1,2,4], ISR [1,2]": (
        State((1, 2, 3), (1, 2), 1, 1, 2, (), ()),
        State((1, 2, 4, 3), (1, 2), 1, 1, 3, (4,), (3,)),
        State((1, 2, 4), (1, 2, 4), 1, 2, 4, (), ()),
    ),
    "[1,2,3,4,5] -> [1,2,3], ISR [4,5], leader 5": (
        State((1, 2, 3, 4, 5), (4, 5), 5, 1, 2, (), ()),
        State((1, 2, 3, 4, 5), (4, 5), 5, 1, 3, (), (4, 5)),
        State((1, 2, 3, 4, 5), (1, 4, 5), 5, 1, 4, (), (4, 5)),
        State((1, 2, 3), (1, 2), 1, 2, 5, (), ()),
    ),
}
"""The states of the description, corrected where they contradict its rules."""


class Nodes:
    """The processes of one cluster, in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._base = next(base for base in BASE_PORTS if all(is_free(base + number) for number in range(6)))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.start(0)
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait()

    def address(self, number: int) -> str:
        return f"{HOST}:{self._base + number}"

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.address, BROKERS))

    def start(self, *numbers: int) -> None:
        """Start nodes, formatted if they are new, and wait until the brokers among them serve clients."""
        for number in numbers:
            config = self._directory / f"{number}.properties"
            if not config.exists():
                config.write_text(self._properties(number))
                standalone = ["--standalone"] if number == 0 else []
                quorumd("format", "--config", config, *standalone)
            with (self._directory / f"{number}.log").open("ab") as output:
                command = [sys.executable, "-m", "quorumd", "start", "--config", str(config)]
                self._processes[number] = subprocess.Popen(command, stdout=output, stderr=output)
        for number in numbers:
            if number:
                wait_for(f"broker {number}", lambda number=number: number in self._brokers(number))

    def stop(self, *numbers: int) -> None:
        """Stop nodes gracefully."""
        for number in numbers:
            self._processes[number].send_signal(signal.SIGTERM)
        for number in numbers:
            self._processes.pop(number).wait()

    def history(self, topic: str) -> list[State]:
        """Return the states of partition 0 of a topic, oldest first."""
        return partition_states(self._directory / "0" / "__cluster_metadata-0", topic)

    def _brokers(self, number: int) -> dict[int, Any]:
        try:
            admin = AdminClient({"bootstrap.servers": self.address(number), **ADMIN})
            return dict(admin.list_topics(timeout=2).brokers)
        except KafkaException:
            return {}

    def _properties(self, number: int) -> str:
        quorum = (
            f"node.id={number}\nquorum.voters=0@{self.address(0)}\nlog.dirs={self._directory / str(number)}\n"
        )
        if number == 0:
            return f"{quorum}process.roles=controller\nlisteners=CONTROLLER://{self.address(0)}\n"
        listener = f"process.roles=broker\nlisteners=PLAINTEXT://{self.address(number)}\n"
        return f"{quorum}{listener}controller.listener.names=CONTROLLER\nbroker.heartbeat.interval.ms=500ms\n"


def partition_states(directory: Path, topic: str) -> list[State]:
    """Return the states of partition 0 of a topic in a metadata log, oldest first."""
    states: list[State] = []
    topic_id = None
    for record in metadata_records(directory):
        if isinstance(record, TopicRecord) and record.name == topic:
            topic_id = record.topic_id
        elif isinstance(record, PartitionRecord) and record.topic_id == topic_id:
            states.append(_first(record))
        elif isinstance(record, PartitionChangeRecord) and record.topic_id == topic_id:
            states.append(_next(states[-1], record))
    return states


def metadata_records(directory: Path) -> Iterator[Message]:
    """Decode the metadata records of a log that is being written."""
    for segment in sorted(directory.glob("*.log")):
        data = segment.read_bytes()
        for header in scan(data, Gapless()).headers:
            if not header.is_control:
                yield from (decode_record(record.value or b"") for record in records(data, header))


def _first(record: PartitionRecord) -> State:
    lists = (tuple(record.adding_replicas), tuple(record.removing_replicas))
    return State(tuple(record.replicas), tuple(record.isr), record.leader, record.leader_epoch, 0, *lists)


def _next(state: State, record: PartitionChangeRecord) -> State:
    """Apply a change. Absent fields are unchanged; a leader in the record, even the same one, increments the leader
    epoch."""
    is_named = record.leader != NO_CHANGE
    return State(
        _changed(state.replicas, record.replicas),
        _changed(state.isr, record.isr),
        record.leader if is_named else state.leader,
        state.leader_epoch + is_named,
        state.partition_epoch + 1,
        _changed(state.adding, record.adding_replicas),
        _changed(state.removing, record.removing_replicas),
    )


def _changed(before: tuple[int, ...], after: list[int] | None) -> tuple[int, ...]:
    return before if after is None else tuple(after)


def quorumd(*arguments: str | Path) -> str:
    """Run a command of quorumd and return its output. Exits the process if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "quorumd", *map(str, arguments)], capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"quorumd {' '.join(map(str, arguments))} failed: {done.stdout}{done.stderr}")
    return done.stdout


def wait_for(condition_name: str, condition: Callable[[], object]) -> None:
    """Poll a condition. Exits the process after PATIENCE_S."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"timed out waiting for {condition_name}")
        time.sleep(0.05)


@contextmanager
def load(bootstrap: str, topic: str) -> Iterator[None]:
    """Produce with acks=all while the block runs; then check that the log has every acknowledged record."""
    places: dict[int, bytes] = {}
    over = threading.Event()

    def delivered(error: object, message: confluent_kafka.Message) -> None:
        offset, value = message.offset(), message.value()
        if error is None and offset is not None and isinstance(value, bytes):
            places[offset] = value

    def produce() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **ADMIN})
        number = 0
        while not over.wait(0.001):
            producer.produce(topic, b"%d" % number, partition=0, on_delivery=delivered)
            producer.poll(0)
            number += 1
        producer.flush(PATIENCE_S)

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        wait_for("the first record", lambda: places)
        yield
    finally:
        over.set()
        thread.join()
    found = read(bootstrap, topic)
    if found != places or sorted(found.values(), key=int) != [found[offset] for offset in sorted(found)]:
        sys.exit(f"the {len(found)} records in the log are not the {len(places)} acknowledged ones in order")
    print(
        f"{len(found):,} records were acknowledged during the reassignment; each is in the log once, in order"
    )


def read(bootstrap: str, topic: str) -> dict[int, bytes]:
    """Read partition 0 of a topic to its end."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "example", "enable.partition.eof": True, **ADMIN}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[int, bytes] = {}
    is_at_end = False
    while not is_at_end:
        for message in consumer.consume(1000, 1.0):
            offset, value = message.offset(), message.value()
            is_at_end |= message.error() is not None
            if message.error() is None and offset is not None and isinstance(value, bytes):
                found[offset] = value
    consumer.close()
    return found


def create(nodes: Nodes, number: int, topic: str, replicas: Sequence[int]) -> None:
    """Create a topic with one partition through broker `number`."""
    admin = AdminClient({"bootstrap.servers": nodes.address(number), **ADMIN})
    config = {"min.insync.replicas": "2"}
    created = admin.create_topics([NewTopic(topic, 1, replica_assignment=[list(replicas)], config=config)])
    created[topic].result(PATIENCE_S)


def reach(nodes: Nodes, topic: str, expected: State) -> None:
    """Wait for a state; the leader may be another broker."""

    def is_reached() -> bool:
        newest = nodes.history(topic)[-1]
        return newest._replace(isr=tuple(sorted(newest.isr))) == expected._replace(leader=newest.leader)

    wait_for(f"{topic} to be {expected}", is_reached)


def reassign(nodes: Nodes, topic: str, replicas: Sequence[int]) -> None:
    """Run `quorumd partitions reassign --execute`."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as plan:
        partition = {"topic": topic, "partition": 0, "replicas": list(replicas)}
        json.dump({"version": 1, "partitions": [partition]}, plan)
        plan.flush()
        where = ("--bootstrap-server", nodes.bootstrap)
        print(quorumd("partitions", "reassign", *where, "--plan", plan.name, "--execute"), end="")


def first_example(nodes: Nodes, states: Sequence[State]) -> None:
    """Run the first example.

    Brokers 1 and 3 are down when the topic is created, so broker 2 leads; then broker 1 restarts and is elected.
    """
    nodes.start(1, 2, 3, 4)
    nodes.stop(1, 3)
    create(nodes, 2, "first", states[0].replicas)
    nodes.start(1)
    wait_for("broker 1 to be in sync", lambda: set(nodes.history("first")[-1].isr) == {1, 2})
    quorumd("partitions", "elect", "--bootstrap-server", nodes.address(1), "--preferred", "--all")
    reach(nodes, "first", states[0])
    with load(nodes.bootstrap, "first"):
        reassign(nodes, "first", (1, 2, 4))
        reach(nodes, "first", states[-1])


def second_example(nodes: Nodes, states: Sequence[State]) -> None:
    """Run the second example.

    Brokers 1 to 3 are down when the topic is created. A restart of broker 4 makes broker 5 the leader; brokers 1 and
    2 are started during the reassignment.
    """
    nodes.start(5)
    nodes.stop(1, 2)
    create(nodes, 4, "second", states[0].replicas)
    nodes.stop(4)
    nodes.start(4)
    reach(nodes, "second", states[0])
    with load(nodes.bootstrap, "second"):
        reassign(nodes, "second", (1, 2, 3))
        for number, state in ((1, states[2]), (2, states[3])):
            nodes.start(number)
            reach(nodes, "second", state)


def main() -> int:
    """Run both examples and print each state; the exit code is 1 if one differs from the description."""
    directory = Path(tempfile.mkdtemp(prefix="quorumd-reassignment-"))
    is_as_described = True
    with Nodes(directory) as nodes:
        for run, topic, title in zip(
            (first_example, second_example), ("first", "second"), EXAMPLES, strict=True
        ):
            states = EXAMPLES[title]
            print(f"\n{title}\n")
            run(nodes, states)
            print(f"\n{HEADING}")
            seen = nodes.history(topic)[states[0].partition_epoch :][: len(states)]
            for state, expected in zip(seen, states, strict=True):
                is_same = state._replace(isr=tuple(sorted(state.isr)), leader=expected.leader) == expected
                is_as_described &= is_same and state.leader in state.isr
                print(state if is_same else f"{state}   described: {expected}")
    if is_as_described:
        shutil.rmtree(directory)
    return 0 if is_as_described else 1


if __name__ == "__main__":
    sys.exit(main())
