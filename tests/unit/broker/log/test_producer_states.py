"""The producers that a log remembers."""

from __future__ import annotations

import pytest

from quorumd.broker.log import producer_state
from quorumd.broker.log.producer_state import ProducerStates
from quorumd.protocol.batch_header import read_header
from tests.support.log.data_batches import produced


def append(states: ProducerStates, producer_id: int, *, transactional: bool = False) -> None:
    batch = read_header(produced(producer_id=producer_id, transactional=transactional))
    states.update(batch, None)


def test_producer_that_was_idle_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may choose a new producer id for every batch."""
    monkeypatch.setattr(producer_state, "MAX_PRODUCERS", 3)
    states = ProducerStates()
    for producer_id in (1, 2, 3, 1, 4):
        append(states, producer_id)
    assert list(states.entries) == [3, 1, 4]
    assert len(states.entries[1].batches) == 2


def test_producers_with_open_transactions_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "MAX_PRODUCERS", 2)
    states = ProducerStates()
    for producer_id in (1, 2):
        append(states, producer_id, transactional=True)
    for producer_id in (3, 4):
        append(states, producer_id)
    assert list(states.entries) == [1, 2, 4]
