"""The invariants of quorumd, one class each, checked after every event that changes the observed state.

A checker receives plain values, never a node, so that tests can construct them. It raises `InvariantViolation`
with the observed contradiction and keeps the history that it needs.

    base                   checkers, observations, violations
    elections              at most one leader per epoch, at most one vote per epoch, monotonic epochs, check quorum
    logs                   log matching, committed data, leader completeness, high watermark, durability
    membership             single voter changes, removed leaders
    readiness              nodes that report readiness
    snapshots              snapshots equal the log
    features               finalized feature levels, and the records and brokers that must support them
    kept_records           records that quorumd stores as written
    state                  acknowledged writes, committed reads, equal images, saved voters
    administration         what administrators set and deleted, and which requests were refused
    administered_register  the values that a read of a changed setting may return
    access                 rights, quotas and credentials that administrators grant
    logins                 the passwords and delegation tokens with which clients log in
    acl_index              the ACLs that authorizers find
    committed_state        topics, partitions, brokers and features in the committed log over time
    reads                  responses to clients that read the cluster
    read_scope             the part of the cluster that a response must show
    consumers              what consumers of the metadata log receive
    linearizability        linearizability of register histories
    append_only_list       linearizability of append-only list histories
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
    AcknowledgedVoterChangesAreCommitted,
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
    "AcknowledgedVoterChangesAreCommitted",
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
