from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.undo_log import UndoEntry, undo
from quorumd.node.state import proposals as module
from quorumd.protocol.record_batch import encode_batch, size_of_records
from tests.support.node.parts import GROUP, NodeParts


class ProposalHarness(NodeParts):
    """Proposals whose batches go to `batches`, from offset 10 on, while `is_open`; no log."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[bytes]] = []
        self.end_offset = 10
        self.is_open = True
        self.while_appending: Callable[[], None] = lambda: None
        self.outcomes: list[tuple[str, bool]] = []
        self.image = ClusterImage()

    def append_values(self, values: Sequence[bytes]) -> int | None:
        self.while_appending()
        if not self.is_open:
            return None
        self.batches.append(list(values))
        self.end_offset += len(values)
        return self.end_offset

    def set(self, key: str, value: str, records: int = 1) -> None:
        changes: list[UndoEntry] = []
        self.image.set_config(GROUP, key, value, changes)
        values = [f"{key}={value}".encode()] * records
        outcome = partial(self._record_outcome, value)
        self.proposals.propose(values, size_of_records(values), changes, outcome)

    def _record_outcome(self, value: str, committed: bool) -> None:
        self.outcomes.append((value, committed))


@pytest.fixture
def harness() -> ProposalHarness:
    return ProposalHarness()


def test_proposals_of_one_turn_form_one_batch(harness: ProposalHarness) -> None:
    harness.set("a", "1")
    harness.set("b", "2")
    assert (harness.batches, len(harness.turns)) == ([], 1)
    harness.end_turn()
    assert harness.batches == [[b"a=1", b"b=2"]]


def test_proposals_during_a_flush_wait_for_its_end(harness: ProposalHarness) -> None:
    harness.is_flushing = True
    harness.set("a", "1")
    harness.end_turn()
    harness.set("b", "2")
    harness.end_turn()
    assert harness.batches == []
    harness.proposals.on_flush_completed()
    assert harness.batches == [[b"a=1", b"b=2"]]


def test_callback_is_called_when_the_high_watermark_reaches_the_end_of_the_batch(
    harness: ProposalHarness,
) -> None:
    harness.set("a", "1", records=3)
    harness.end_turn()
    harness.time.pass_ms(7)
    harness.proposals.committed(12)
    assert harness.outcomes == []
    harness.proposals.committed(13)
    assert harness.outcomes == [("1", True)]
    assert harness.latencies == [(7.0, 3)]
    assert harness.proposals.is_empty


def test_lost_leadership_undoes_changes_newest_first(harness: ProposalHarness) -> None:
    harness.image.set_config(GROUP, "a", "before", [])
    harness.set("a", "1")
    harness.end_turn()
    harness.set("a", "2")
    harness.set("b", "3")
    harness.proposals.on_leadership_lost()
    assert harness.image.config(GROUP) == {"a": "before"}
    assert harness.outcomes == [("1", False), ("2", False), ("3", False)]
    harness.end_turn()
    assert harness.batches == [[b"a=1"]]


def test_uncommitted_changes_are_those_of_every_stage_newest_first(harness: ProposalHarness) -> None:
    harness.set("a", "committed")
    harness.end_turn()
    harness.proposals.committed(harness.end_offset)

    def count() -> None:
        changes = harness.proposals.uncommitted_changes()
        counts.append(len(changes))
        undo(changes)
        assert harness.image.config(GROUP) == {"a": "committed"}

    counts: list[int] = []
    count()
    harness.set("a", "1")
    harness.set("a", "2")
    count()
    harness.while_appending = count
    harness.end_turn()
    count()
    harness.set("a", "3")
    count()
    each = counts[1] // 2
    assert counts == [0, 2 * each, 2 * each, 2 * each, 3 * each]
    assert each


def test_committed_changes_are_not_undone(harness: ProposalHarness) -> None:
    harness.set("a", "1")
    harness.end_turn()
    harness.proposals.committed(11)
    harness.set("a", "2")
    harness.proposals.on_leadership_lost()
    assert harness.image.config(GROUP) == {"a": "1"}


def test_rejected_append_fails_all_pending_proposals(harness: ProposalHarness) -> None:
    harness.set("a", "1")
    harness.set("a", "2")
    harness.is_open = False
    harness.end_turn()
    assert harness.outcomes == [("1", False), ("2", False)]
    assert harness.image.config(GROUP) == {}
    assert harness.proposals.is_empty


def test_read_waits_for_all_proposals(harness: ProposalHarness) -> None:
    harness.set("a", "1")
    settled: list[bool] = []
    harness.proposals.on_commit(settled.append)
    assert settled == []
    harness.proposals.committed(11)
    assert settled == [True]
    harness.proposals.on_commit(settled.append)
    assert settled == [True, True]


def test_read_fails_if_its_append_loses_the_leadership(
    harness: ProposalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It appends pending records to a full disk, and the leader resigns within the append."""
    harness.set("a", "1")
    harness.end_turn()
    harness.set("a", "2")
    harness.is_open = False
    refuse = harness.append_values

    def append(values: Sequence[bytes]) -> int | None:
        harness.proposals.on_leadership_lost()
        return refuse(values)

    monkeypatch.setattr(harness.proposals, "_append", append)
    settled: list[bool] = []
    harness.proposals.on_commit(settled.append)
    assert settled == [False]


def test_batches_stay_below_the_limit_without_splitting_proposals(
    harness: ProposalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_BYTES", 2 * size_of_records([b"a=1"]))
    for number in "12345":
        harness.set("a", number)
    harness.end_turn()
    assert harness.batches == [[b"a=1", b"a=2"], [b"a=3", b"a=4"], [b"a=5"]]
    harness.set("a", "6", records=4)
    harness.end_turn()
    assert harness.batches[-1] == [b"a=6"] * 4


def test_framing_of_short_records_counts_towards_the_limit(harness: ProposalHarness) -> None:
    for number in "12":
        harness.set("a", number, records=400_000)
    harness.end_turn()
    assert [len(batch) for batch in harness.batches] == [400_000] * 2
    assert 2 * len(encode_batch(10, 1, 0, harness.batches[0])) > 8 * 1024 * 1024


def test_leadership_lost_during_a_rejected_append_undoes_newest_first(harness: ProposalHarness) -> None:
    """A full disk makes the leader resign within the append."""
    harness.image.set_config(GROUP, "a", "before", [])
    harness.set("a", "1")
    harness.end_turn()
    harness.set("a", "2")

    def refuse(values: Sequence[bytes]) -> None:
        harness.proposals.on_leadership_lost()

    harness.proposals._append = refuse
    harness.end_turn()
    assert harness.image.config(GROUP) == {"a": "before"}
    assert harness.outcomes == [("1", False), ("2", False)]


def test_deferred_callback_does_not_append_pending_records(harness: ProposalHarness) -> None:
    harness.is_flushing = True
    harness.set("a", "1", records=3)
    harness.proposals.on_commit_deferred(lambda ok: harness.outcomes.append(("follower", ok)))
    harness.end_turn()
    assert (harness.batches, harness.proposals.pending_records) == ([], 3)
    harness.proposals.on_flush_completed()
    assert (len(harness.batches), len(harness.batches[0])) == (1, 3)
    assert (harness.outcomes, harness.proposals.pending_records) == ([], 0)
    harness.proposals.committed(harness.end_offset)
    assert harness.outcomes == [("1", True), ("follower", True)]


def test_deferred_callback_waits_for_appended_records(harness: ProposalHarness) -> None:
    harness.set("a", "1")
    harness.end_turn()
    harness.proposals.on_commit_deferred(lambda ok: harness.outcomes.append(("follower", ok)))
    assert harness.outcomes == []
    harness.proposals.on_leadership_lost()
    assert harness.outcomes == [("1", False), ("follower", False)]


def test_deferred_callback_without_proposals_is_called_at_once(harness: ProposalHarness) -> None:
    harness.proposals.on_commit_deferred(lambda ok: harness.outcomes.append(("follower", ok)))
    assert harness.outcomes == [("follower", True)]
    assert harness.proposals.is_empty


def test_callbacks_of_a_new_leader_wait_for_the_commit_of_its_log(harness: ProposalHarness) -> None:
    harness.proposals.await_uncommitted(7)
    harness.proposals.on_commit_deferred(lambda ok: harness.outcomes.append(("follower", ok)))
    harness.proposals.committed(6)
    assert harness.outcomes == []
    harness.proposals.committed(7)
    assert harness.outcomes == [("follower", True)]
    assert (harness.latencies, harness.proposals.is_empty) == ([], True)
