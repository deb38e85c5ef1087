"""The oracle for producer states: producers and transactions of a log by its batches."""

from __future__ import annotations

import pytest

from quorumd.protocol.batch_header import NO_PRODUCER, TRANSACTIONAL_BIT, BatchHeader
from quorumd.simulator.brokers.nodes.producer_model import NONE, KnownProducer, ProducerModel
from quorumd.simulator.checkers.base import InvariantViolation

CONTROL_BIT = 0x20
PRODUCER = 7


def batch(
    offset: int,
    epoch: int = 0,
    sequence: int = 0,
    attributes: int = 0,
    producer: int = PRODUCER,
    count: int = 2,
) -> BatchHeader:
    return BatchHeader(
        0, 61, offset, offset + count, 1, 0, attributes, 5, 5, producer, epoch, sequence, count
    )


def marker(offset: int, epoch: int = 0, producer: int = PRODUCER) -> BatchHeader:
    return batch(offset, epoch, NONE, TRANSACTIONAL_BIT | CONTROL_BIT, producer, 1)


def in_transaction(offset: int, sequence: int = 0, producer: int = PRODUCER) -> BatchHeader:
    return batch(offset, 0, sequence, TRANSACTIONAL_BIT, producer)


@pytest.fixture
def model() -> ProducerModel:
    return ProducerModel()


def test_newest_batch_of_each_producer_counts(model: ProducerModel) -> None:
    for each in (batch(0), batch(2, producer=NO_PRODUCER), batch(4, sequence=2), batch(6, producer=8)):
        model.add(each)
    assert model.newest == {PRODUCER: KnownProducer(0, 3, NONE, 4), 8: KnownProducer(0, 1, NONE, 6)}


def test_batch_that_is_read_again_changes_nothing(model: ProducerModel) -> None:
    for each in (batch(0), batch(2, sequence=2), batch(0)):
        model.add(each)
    assert model.newest[PRODUCER].last_sequence == 3


def test_truncation_restores_the_earlier_state(model: ProducerModel) -> None:
    for each in (in_transaction(0), marker(2), batch(3, epoch=1)):
        model.add(each)
    model.truncate(3)
    assert model.newest[PRODUCER] == KnownProducer(0, 1, NONE, 2)
    model.truncate(2)
    assert model.newest[PRODUCER] == KnownProducer(0, 1, 0, 0)
    assert model.transactions == []


def test_epochs_of_a_producer_never_decrease(model: ProducerModel) -> None:
    model.add(batch(0, epoch=1))
    with pytest.raises(InvariantViolation, match="epoch"):
        model.add(batch(2, epoch=0))


def test_marker_with_a_new_epoch_begins_a_new_sequence(model: ProducerModel) -> None:
    model.add(in_transaction(0))
    model.add(marker(2, epoch=1))
    assert model.newest[PRODUCER] == KnownProducer(1, NONE, NONE, 2)


def test_last_stable_offset_waits_for_committed_markers(model: ProducerModel) -> None:
    model.add(batch(0, producer=8))
    model.add(in_transaction(2))
    assert model.last_stable_offset(4) == 2
    model.add(marker(4))
    assert model.last_stable_offset(4) == 2
    assert model.last_stable_offset(5) == 5


def test_transactions_that_had_ended_when_the_log_was_loaded_are_not_awaited(model: ProducerModel) -> None:
    for each in (in_transaction(0), marker(2), in_transaction(3, producer=8)):
        model.add(each)
    model.loaded()
    assert model.last_stable_offset(1) == 1
    assert model.last_stable_offset(5) == 3
