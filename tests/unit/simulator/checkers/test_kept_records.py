"""The oracle for opaque records, and the leader that writes them."""

from __future__ import annotations

from random import Random

import pytest

from quorumd.controller.opaque_records import OPAQUE_KEYS
from quorumd.ids import OffsetAndEpoch
from quorumd.protocol.apis import record_class
from quorumd.protocol.messages import RECORDS
from quorumd.protocol.messages.abort_transaction_record import AbortTransactionRecord
from quorumd.protocol.messages.begin_transaction_record import BeginTransactionRecord
from quorumd.protocol.messages.client_quota_record import ClientQuotaRecord, EntityData
from quorumd.protocol.messages.delegation_token_record import DelegationTokenRecord
from quorumd.protocol.messages.end_transaction_record import EndTransactionRecord
from quorumd.protocol.messages.no_op_record import NoOpRecord
from quorumd.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from quorumd.protocol.metadata_record import decode_record, encode_record
from quorumd.protocol.record_batch import encode_batch
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers import (
    CommittedDataIsImmutable,
    InvariantViolation,
    KeptRecordsSurvive,
    Observation,
)
from quorumd.simulator.checkers.kept_records import named
from quorumd.simulator.inspection.log_mirror import batches_in
from quorumd.simulator.options import SimulationOptions
from quorumd.simulator.simulation import Simulation
from quorumd.simulator.workload.kept_records import draw_kept_record

TOKEN = encode_record(DelegationTokenRecord(token_id="t"), 0)
OTHER = encode_record(DelegationTokenRecord(token_id="u"), 0)


def checker_of(*records: Message) -> KeptRecordsSurvive:
    """Commit each of these records as a batch."""
    committed = CommittedDataIsImmutable()
    frames = [encode_record(record, 0) for record in records]
    log = batches_in(b"".join(encode_batch(offset, 1, 0, [frame]) for offset, frame in enumerate(frames)))
    committed.observed(Observation(1, 1, 1, high_watermark=len(log), log=log, appended=log))
    return KeptRecordsSurvive(committed)


def image_at(offset: int, *frames: bytes) -> Observation:
    return Observation(1, 1, 1, applied_offset=offset, opaque_records=frozenset(frames))


TWO_TOKENS = (
    DelegationTokenRecord(token_id="t"),
    NoOpRecord(),
    DelegationTokenRecord(token_id="u"),
    RemoveDelegationTokenRecord("t"),
)


def test_image_has_the_records_below_its_offset_that_were_not_removed() -> None:
    checker = checker_of(*TWO_TOKENS)
    for offset, frames in enumerate([(), (TOKEN,), (TOKEN,), (TOKEN, OTHER), (OTHER,)]):
        checker.observed(image_at(offset, *frames))
    checker.observed(Observation(1, 1, 1, applied_offset=-1))


@pytest.mark.parametrize(
    "frames", [(), (TOKEN,), (TOKEN, OTHER), (encode_record(DelegationTokenRecord("x", token_id="u"), 0),)]
)
def test_image_with_missing_or_unexpected_records_is_reported(frames: tuple[bytes, ...]) -> None:
    with pytest.raises(InvariantViolation, match=r"offset 4\b.*node 1\b"):
        checker_of(*TWO_TOKENS).observed(image_at(4, *frames))


def test_image_in_the_middle_of_a_batch_is_compared_at_its_end() -> None:
    committed = CommittedDataIsImmutable()
    log = batches_in(encode_batch(0, 1, 0, [TOKEN, OTHER]))
    committed.observed(Observation(1, 1, 1, high_watermark=2, log=log, appended=log))
    checker = KeptRecordsSurvive(committed)
    checker.observed(image_at(1, TOKEN))
    with pytest.raises(InvariantViolation, match=r"\boffset 2\b"):
        checker.observed(image_at(2, TOKEN))


def test_snapshot_without_them_is_reported() -> None:
    checker, snapshot = checker_of(*TWO_TOKENS), OffsetAndEpoch(3, 1)
    checker.snapshot_seen(2, snapshot, encode_batch(0, 1, 0, [encode_record(NoOpRecord(), 0), OTHER, TOKEN]))
    with pytest.raises(InvariantViolation, match=r"node 2 lacks .*token_id='u'"):
        checker.snapshot_seen(2, snapshot, encode_batch(0, 1, 0, [TOKEN]))


def test_oracle_knows_what_the_image_keeps() -> None:
    for api_key in RECORDS:
        record = record_class(api_key)()
        assert (named(record) is not None) == (type(record) in OPAQUE_KEYS)


def test_quotas_of_an_entity_are_one_in_any_order_of_its_parts() -> None:
    parts = [EntityData("user", None), EntityData("client-id", "c")]
    one, other = (ClientQuotaRecord(entity, "k") for entity in (parts, parts[::-1]))
    assert named(one) == named(other) != named(ClientQuotaRecord(parts, "l"))


def test_all_kinds_are_drawn() -> None:
    random = Random(1)
    kept: list[bytes] = []
    for _ in range(300):
        kept.append(draw_kept_record(random, kept))
    assert {type(decode_record(frame)) for frame in kept} == set(OPAQUE_KEYS)


def test_leader_writes_them() -> None:
    report = Simulation(1, SimulationOptions(voters=1, safety_ms=3000.0, kept_records_ms=50.0)).run()
    assert report.ok
    assert report.counters["batches of kept records"] > 10


def test_leader_writes_many_at_once() -> None:
    few, many = (
        Simulation(
            1, SimulationOptions(voters=1, safety_ms=2000.0, kept_records_ms=50.0, kept_records_at_once=most)
        )
        .run()
        .counters["committed records"]
        for most in (1, 40)
    )
    assert many > few + 200


def test_records_of_a_transaction_count_at_its_end() -> None:
    token, other = DelegationTokenRecord(token_id="t"), DelegationTokenRecord(token_id="u")
    ended = checker_of(BeginTransactionRecord(), token, EndTransactionRecord(), other)
    for offset, frames in enumerate([(), (), (), (TOKEN,), (TOKEN, OTHER)]):
        ended.observed(image_at(offset, *frames))
    aborted = checker_of(BeginTransactionRecord(), token, AbortTransactionRecord(), other)
    for offset, frames in enumerate([(), (), (), (), (OTHER,)]):
        aborted.observed(image_at(offset, *frames))
    with pytest.raises(InvariantViolation):
        aborted.observed(image_at(4, TOKEN, OTHER))
