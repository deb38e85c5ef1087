"""Promises that quorumd makes, one class each, asked after every event that changed something.

A checker gets plain values, never a node: it can be tested with values made by hand. It raises `Broken`
with what happened; it keeps whatever it must remember of the past itself.

    elections       at most one leader per epoch, at most one vote per epoch, epochs that never decrease, leaders
    that resign
    logs            log matching, committed data, leader completeness, high watermark, durability
    membership      voters that change one at a time, leaders that are removed
    readiness       nodes that say they are ready
    snapshots       snapshots that equal the log
    features        finalized levels, records and brokers that keep to them
    kept_records    records that quorumd keeps for others
    state           acknowledged writes, committed reads, equal images, saved voters
    linearizability reads and writes of clients, judged by their history
    append_only_list  the same for lists that clients append to
"""

from __future__ import annotations

from quorumd.simulator.checkers.base import Checker, InvariantViolation, Observation, SavedVote, SavedVoters
from quorumd.simulator.checkers.elections import (
    EpochMonotonic,
    EpochsAreDurable,
    LeaderHasMajority,
    OneLeaderPerEpoch,
    OneVotePerEpoch,
    OnlyCandidatesStartEpochs,
    VotesAreDurable,
)
from quorumd.simulator.checkers.features import FeaturesAreFinalized
from quorumd.simulator.checkers.kept_records import KeptRecordsSurvive
from quorumd.simulator.checkers.logs import (
    CheckpointIsDurable,
    CommittedDataIsImmutable,
    CommittedDataIsOnMajority,
    HighWatermarkMonotonic,
    LeaderAppendOnly,
    LeaderCompleteness,
    LogMatching,
    OwnEpochCommitsFirst,
    RecoveryKeepsDurable,
)
from quorumd.simulator.checkers.membership import (
    BootstrappedOnce,
    NewVotersHaveCaughtUp,
    RemainingVotersFetch,
    RemovedLeadersResign,
    RemovedVotersDoNotCampaign,
    ReplacedDisksDoNotVote,
    SingleVoterChanges,
)
from quorumd.simulator.checkers.readiness import ReadyClaim, ReadyNodesServe
from quorumd.simulator.checkers.snapshots import SnapshotsEqualTheLog
from quorumd.simulator.checkers.state import (
    AcknowledgedWrites,
    ImagesEqual,
    ReadsReturnCommitted,
    SavedVotersAreCommitted,
)

__all__ = [
    "AcknowledgedWrites",
    "BootstrappedOnce",
    "Checker",
    "CheckpointIsDurable",
    "CommittedDataIsImmutable",
    "CommittedDataIsOnMajority",
    "EpochMonotonic",
    "EpochsAreDurable",
    "FeaturesAreFinalized",
    "HighWatermarkMonotonic",
    "ImagesEqual",
    "InvariantViolation",
    "KeptRecordsSurvive",
    "LeaderAppendOnly",
    "LeaderCompleteness",
    "LeaderHasMajority",
    "LogMatching",
    "NewVotersHaveCaughtUp",
    "Observation",
    "OneLeaderPerEpoch",
    "OneVotePerEpoch",
    "OnlyCandidatesStartEpochs",
    "OwnEpochCommitsFirst",
    "ReadsReturnCommitted",
    "ReadyClaim",
    "ReadyNodesServe",
    "RecoveryKeepsDurable",
    "RemainingVotersFetch",
    "RemovedLeadersResign",
    "RemovedVotersDoNotCampaign",
    "ReplacedDisksDoNotVote",
    "SavedVote",
    "SavedVoters",
    "SavedVotersAreCommitted",
    "SingleVoterChanges",
    "SnapshotsEqualTheLog",
    "VotesAreDurable",
]
