"""Promises that quorumd makes, one class each, asked after every event that changed something.

A checker gets plain values, never a node: it can be tested with values made by hand. It raises `Broken`
with what happened; it keeps whatever it must remember of the past itself.

    elections       one leader an epoch, one vote an epoch, epochs that never decrease
    logs            log matching, committed data, leader completeness, high watermark, durability
    state           acknowledged writes, equal images
    linearizability reads and writes of clients, judged by their history
    append_only_list  the same for lists that clients append to
"""

from __future__ import annotations

from quorumd.simulator.checkers.base import Broken, Checker, Observation, SavedVote
from quorumd.simulator.checkers.elections import (
    EpochNeverDecreases,
    OneLeaderPerEpoch,
    OneVotePerEpoch,
    VotesAreDurable,
)
from quorumd.simulator.checkers.logs import (
    CommittedNeverChanges,
    CommittedOnMajority,
    HighWatermarkMonotonic,
    LeaderAppendOnly,
    LeaderCompleteness,
    LogMatching,
    RecoveryKeepsDurable,
)
from quorumd.simulator.checkers.state import AcknowledgedWrites, ImagesEqual

__all__ = [
    "AcknowledgedWrites",
    "Broken",
    "Checker",
    "CommittedNeverChanges",
    "CommittedOnMajority",
    "EpochNeverDecreases",
    "HighWatermarkMonotonic",
    "ImagesEqual",
    "LeaderAppendOnly",
    "LeaderCompleteness",
    "LogMatching",
    "Observation",
    "OneLeaderPerEpoch",
    "OneVotePerEpoch",
    "RecoveryKeepsDurable",
    "SavedVote",
    "VotesAreDurable",
]
