"""The oracle for finalized features, and the operator who changes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quorumd.errors import ErrorCode
from quorumd.ids import KafkaUuid, OffsetAndEpoch
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord
from quorumd.protocol.messages.partition_record import PartitionRecord
from quorumd.protocol.messages.register_broker_record import BrokerFeature, RegisterBrokerRecord
from quorumd.protocol.metadata_record import encode_record
from quorumd.protocol.record_batch import encode_batch
from quorumd.protocol.wire import Message
from quorumd.simulator.checkers import (
    CommittedDataIsImmutable,
    FeaturesAreFinalized,
    InvariantViolation,
    Observation,
)
from quorumd.simulator.inspection.log_mirror import batches_in
from quorumd.simulator.profiles.draw import draw_options
from quorumd.simulator.profiles.registry import PROFILES
from quorumd.simulator.simulation import Simulation
from quorumd.simulator.workload.feature_options import FeatureOptions

METADATA_VERSION, ELR_VERSION = "metadata.version", "eligible.leader.replicas.version"
AT_22, AT_25, AT_30 = (FeatureLevelRecord(METADATA_VERSION, level) for level in (22, 25, 30))


class ObservedLog:
    """A committed log that the checker observes; each `commit` is a batch."""

    def __init__(self, *begins_with: Message) -> None:
        self._committed = CommittedDataIsImmutable()
        self._log = b""
        self._end = 0
        self.checker = FeaturesAreFinalized(self._committed)
        for record in begins_with:
            self.commit(record)

    def commit(self, *records: Message, version: int = 0) -> None:
        self._log += encode_batch(self._end, 1, 0, [encode_record(record, version) for record in records])
        self._end += len(records)
        log = batches_in(self._log)
        seen = Observation(1, 1, 1, high_watermark=self._end, log=log, appended=log[-1:])
        self._committed.observed(seen)
        self.checker.observed(seen)


def broker(highest: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(7, features=[BrokerFeature(METADATA_VERSION, 7, highest)])


def test_requested_levels_are_accepted() -> None:
    observed_log = ObservedLog(AT_25)
    number = observed_log.checker.requested({METADATA_VERSION: 30})
    observed_log.commit(AT_30)
    observed_log.checker.responded(number, ErrorCode.NONE)
    assert observed_log.checker.levels == {METADATA_VERSION: 30}
    assert observed_log.checker.changes == 1


@pytest.mark.parametrize("wanted", [{}, {METADATA_VERSION: 29}, {ELR_VERSION: 1}])
def test_unrequested_level_is_reported(wanted: dict[str, int]) -> None:
    observed_log = ObservedLog(AT_25)
    observed_log.checker.requested(wanted)
    with pytest.raises(InvariantViolation, match="without a request"):
        observed_log.commit(AT_30)


def test_pending_requests_may_be_combined() -> None:
    both = (AT_30, FeatureLevelRecord(ELR_VERSION, 1))
    for code in (None, ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_UPDATE_VERSION):
        observed_log = ObservedLog(AT_25)
        first = observed_log.checker.requested({METADATA_VERSION: 30})
        observed_log.checker.requested({ELR_VERSION: 1})
        if code is not None:
            observed_log.checker.responded(first, code)
        if code is not ErrorCode.INVALID_UPDATE_VERSION:
            observed_log.commit(*both)
            continue
        with pytest.raises(InvariantViolation, match="without a request"):
            observed_log.commit(*both)


def test_refused_level_counts_as_unrequested() -> None:
    observed_log = ObservedLog(AT_25)
    observed_log.checker.responded(
        observed_log.checker.requested({METADATA_VERSION: 30}), ErrorCode.INVALID_UPDATE_VERSION
    )
    with pytest.raises(InvariantViolation, match="without a request"):
        observed_log.commit(AT_30)


def test_acknowledged_level_is_committed() -> None:
    observed_log = ObservedLog(AT_25)
    number = observed_log.checker.requested({METADATA_VERSION: 30})
    with pytest.raises(InvariantViolation, match="were acknowledged"):
        observed_log.checker.responded(number, ErrorCode.NONE)


@pytest.mark.parametrize("lower", [AT_22, AT_25])
def test_downgrade_that_could_lose_records_is_reported(lower: FeatureLevelRecord) -> None:
    observed_log = ObservedLog(AT_30)
    observed_log.checker.requested({METADATA_VERSION: lower.feature_level})
    with pytest.raises(InvariantViolation, match=f"from 30 down to {lower.feature_level}"):
        observed_log.commit(lower)


def test_elr_below_its_metadata_version_is_reported() -> None:
    observed_log = ObservedLog(AT_22)
    observed_log.checker.requested({ELR_VERSION: 1})
    with pytest.raises(InvariantViolation, match="leaves the ELR on"):
        observed_log.commit(FeatureLevelRecord(ELR_VERSION, 1))


def test_record_above_the_level_is_reported_in_log_and_snapshot() -> None:
    row = PartitionRecord(0, KafkaUuid(bytes(16)), [1], [1], leader=1)
    observed_log = ObservedLog(AT_22)
    observed_log.commit(row, version=1)
    with pytest.raises(InvariantViolation, match="PartitionRecord in version 2"):
        observed_log.commit(row, version=2)
    frames = [encode_record(AT_22, 0), encode_record(broker(30), 4)]
    snapshot = encode_batch(0, 1, 0, frames)
    with pytest.raises(InvariantViolation, match=r"snapshot .*RegisterBrokerRecord in version 4"):
        ObservedLog(AT_30).checker.snapshot_seen(1, OffsetAndEpoch(5, 1), snapshot)


def test_broker_without_a_level_is_reported() -> None:
    observed_log = ObservedLog(AT_25, broker(27))
    observed_log.checker.requested({METADATA_VERSION: 30})
    with pytest.raises(InvariantViolation, match="broker 7 is registered"):
        observed_log.commit(AT_30)
    with pytest.raises(InvariantViolation, match="not 25"):
        ObservedLog(AT_25, broker(24))


def test_seeds_draw_levels_of_all_kinds() -> None:
    drawn = [draw_options(seed, "features").features for seed in range(200)]
    assert {features.levels[METADATA_VERSION] for features in drawn} == set(range(21, 34))
    assert {features.levels[ELR_VERSION] for features in drawn} == {0, 1}
    assert {features.levels["share.version"] for features in drawn} == {0, 1, 2}
    usual = [draw_options(seed).features for seed in range(100)]
    assert 0 < sum(bool(features.levels) for features in usual) < 50


def test_levels_change_during_a_run_with_older_brokers() -> None:
    options = draw_options(1, "features")
    options = replace(options, features=replace(options.features, changes_ms=50.0), safety_ms=3000.0)
    report = Simulation(1, options).run()
    assert report.ok
    assert report.counters["features changed"] > 3
    assert report.counters["UpdateFeatures: INVALID_UPDATE_VERSION"] > 3


def test_cluster_starts_with_its_formatted_levels() -> None:
    options = draw_options(1, "calm")
    levels = {METADATA_VERSION: 24, "group.version": 1}
    simulation = Simulation(1, replace(options, features=FeatureOptions(levels), safety_ms=1500.0))
    assert simulation.run().ok
    assert simulation._inspector.features.levels == levels
    assert "features" in PROFILES
