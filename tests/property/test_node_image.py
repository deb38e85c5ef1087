"""Whatever a node lives through as leader and follower, its image is that of its log (architecture D5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from quorumd.controller.cluster_image import ClusterImage, ResourceType
from quorumd.controller.undo_log import UndoEntry
from quorumd.log import LogSettings
from quorumd.log.segmented_log import SegmentedLog
from quorumd.node.state.proposals import Proposals
from quorumd.node.state.state_machine import StateMachine
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.metadata_record import decode_record, encode_record
from quorumd.protocol.record_batch import encode_batch, headers, values
from quorumd.simulator.environment.clock import SimulatedClock
from quorumd.simulator.environment.disk import SimulatedDisk
from quorumd.simulator.environment.event_heap import EventHeap, Process

GROUP = (int(ResourceType.GROUP), "g")

keys = st.sampled_from("abc")
texts = st.one_of(st.none(), st.sampled_from("123"))
changes = st.lists(st.tuples(keys, texts), min_size=1, max_size=3)
operations = st.one_of(
    st.tuples(st.just("propose"), changes),
    st.tuples(st.just("fetch"), changes),
    st.tuples(st.just("end turn"), st.none()),
    st.tuples(st.just("commit"), st.integers(0, 3)),
    st.tuples(st.just("lead"), st.none()),
    st.tuples(st.just("lose"), st.booleans()),
)


class World:
    """One node's log, image and proposals. `committed` is what a majority has, in batches that end there."""

    def __init__(self, record_ms: float = 0.0) -> None:
        disk = SimulatedDisk(EventHeap(), Random(1))
        disk.make_directory("/log")
        self.log, _ = SegmentedLog.open(disk, "/log", LogSettings(allocate_bytes=0))
        self.turns: list[Callable[[], None]] = []
        clock = SimulatedClock(EventHeap(), Process("node"), record_ms=record_ms)
        self.machine = StateMachine(self.log, clock, self.turns.append, self.turns.append)
        self.proposals = Proposals(
            self._append, self.turns.append, lambda: True, lambda: 0.0, lambda ms, count: None
        )
        self.epoch = 1
        self.leads = self.is_active = False
        self.committed = 0
        self.outcomes: list[tuple[int, bool]] = []
        self.promised: list[int] = []

    def propose(self, pairs: Sequence[tuple[str, str | None]]) -> None:
        """What a request does: change the image, and ask for the records of it."""
        if not self.is_active:
            return
        undo: list[UndoEntry] = []
        for key, value in pairs:
            self.machine.image.set_config(GROUP, key, value, undo)
        number = len(self.promised)
        self.promised.append(number)
        records = [encode_record(ConfigRecord(*GROUP, key, value), 0) for key, value in pairs]
        self.proposals.propose(records, undo, lambda ok: self.outcomes.append((number, ok)))

    def fetch(self, pairs: Sequence[tuple[str, str | None]]) -> None:
        if not self.leads:
            self._write([encode_record(ConfigRecord(*GROUP, key, value), 0) for key, value in pairs])

    def end_turn(self) -> None:
        turns, self.turns[:] = list(self.turns), []
        for turn in turns:
            turn()

    def commit(self, batches: int) -> None:
        for header in list(headers(self.log.read(self.committed, 1 << 20)))[:batches]:
            self.committed = header.end_offset
        self.machine.committed(self.committed)
        self.proposals.committed(self.committed)

    def lead(self) -> None:
        if not self.leads:
            self.leads, self.epoch = True, self.epoch + 1
            self.machine.lead(self.activate)

    def activate(self) -> None:
        self.is_active = True

    def lose(self, cuts: bool) -> None:
        """The next leader has all that is committed, and perhaps not the rest."""
        if self.leads:
            self.leads = self.is_active = False
            self.proposals.lost()
            self.machine.on_leadership_lost()
            if cuts:
                self.log.truncate(self.committed)

    def image_of_log(self, end_offset: int) -> ClusterImage:
        image = ClusterImage()
        data = self.log.read(0, 1 << 20, max_offset=end_offset)
        for header in headers(data):
            for value in values(data, header):
                image.apply(decode_record(value), [])
        return image

    def _append(self, records: Sequence[bytes]) -> int | None:
        if not self.leads:
            return None
        self._write(records)
        self.machine.appended(self.log.end_offset)
        return self.log.end_offset

    def _write(self, records: Sequence[bytes]) -> None:
        base_offset = self.log.end_offset
        self.log.append(encode_batch(base_offset, self.epoch, 1000, records), base_offset + len(records))


def perform(world: World, name: str, argument: object) -> None:
    operation = getattr(world, name.replace(" ", "_"))
    if argument is None:
        operation()
    else:
        operation(argument)


@settings(max_examples=150)
@given(st.lists(operations, min_size=8, max_size=40), st.sampled_from([0.0, 2.5, 5.0]))
def test_the_image_is_that_of_the_log(script: list[tuple[str, object]], record_ms: float) -> None:
    world = World(record_ms)
    for name, argument in script:
        perform(world, name, argument)
    while world.leads and not world.is_active:
        world.end_turn()
    if world.leads:
        world.proposals.append_pending()
        assert world.machine.image.fingerprint() == world.image_of_log(world.log.end_offset).fingerprint()
        world.lose(cuts=False)
    while world.turns:
        world.end_turn()
    assert world.machine.image.fingerprint() == world.image_of_log(world.committed).fingerprint()
    assert sorted(number for number, _ in world.outcomes) == world.promised, "each is told once"
