"""After any changes of leadership the image of a node is that of its log."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.undo_log import UndoEntry
from quorumd.protocol.batch_scan import headers
from quorumd.protocol.messages.config_record import ConfigRecord
from quorumd.protocol.metadata_record import decode_record, encode_record
from quorumd.protocol.record_batch import size_of_records, values
from tests.support.node.parts import GROUP, NodeParts

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


class Replica(NodeParts):
    """Log, image and proposals of one node. `committed` is the high watermark, at the end of a batch."""

    def __init__(self, record_ms: float = 0.0) -> None:
        super().__init__()
        self.machine = self.make_machine(record_ms)
        self.epoch = 1
        self.leads = self.is_active = False
        self.committed = 0
        self.outcomes: list[tuple[int, bool]] = []
        self.proposed: list[int] = []

    def propose(self, pairs: Sequence[tuple[str, str | None]]) -> None:
        """Handle a request: change the image and propose its records."""
        if not self.is_active:
            return
        undo: list[UndoEntry] = []
        for key, value in pairs:
            self.machine.image.set_config(GROUP, key, value, undo)
        number = len(self.proposed)
        self.proposed.append(number)
        records = [encode_record(ConfigRecord(*GROUP, key, value), 0) for key, value in pairs]
        self.proposals.propose(
            records, size_of_records(records), undo, lambda ok: self.outcomes.append((number, ok))
        )

    def fetch(self, pairs: Sequence[tuple[str, str | None]]) -> None:
        if not self.leads:
            self.append(*pairs, epoch=self.epoch)

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
        """Lose leadership; the next leader has all committed records, and perhaps not the rest."""
        if self.leads:
            self.leads = self.is_active = False
            self.proposals.on_leadership_lost()
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

    def append_values(self, values: Sequence[bytes]) -> int | None:
        if not self.leads:
            return None
        self.machine.appended(self.write_values(values, self.epoch))
        return self.log.end_offset


def perform(replica: Replica, name: str, argument: object) -> None:
    operation = getattr(replica, name.replace(" ", "_"))
    if argument is None:
        operation()
    else:
        operation(argument)


@settings(max_examples=150)
@given(st.lists(operations, min_size=8, max_size=40), st.sampled_from([0.0, 2.5, 5.0]))
def test_image_equals_that_of_the_log(script: list[tuple[str, object]], record_ms: float) -> None:
    replica = Replica(record_ms)
    for name, argument in script:
        perform(replica, name, argument)
    while replica.leads and not replica.is_active:
        replica.end_turn()
    if replica.leads:
        replica.proposals.append_pending()
        assert (
            replica.machine.image.fingerprint() == replica.image_of_log(replica.log.end_offset).fingerprint()
        )
        replica.lose(cuts=False)
    while replica.turns:
        replica.end_turn()
    assert replica.machine.image.fingerprint() == replica.image_of_log(replica.committed).fingerprint()
    assert sorted(number for number, _ in replica.outcomes) == replica.proposed, "each gets one outcome"
