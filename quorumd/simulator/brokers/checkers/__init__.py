"""Promises about brokers and their records, one class each; see `base` for what they can look at.

rows       what is committed of partitions and brokers, and every step of it
placement  where new topics go
replicas   logs, high watermarks, what leaders take for the ISR
answers    what the controller may answer
liveness   what must come to be once nothing goes wrong any more
"""

from __future__ import annotations

from quorumd.simulator.brokers.checkers import answers, placement, replicas, rows
from quorumd.simulator.brokers.checkers.base import BrokerChecker


def all_checkers() -> list[BrokerChecker]:
    """One of each, for one simulation. What is committed comes first: nothing of a broker is right if that is not."""
    return [
        rows.EpochsOfPartitionsGrow(),
        rows.DroppedReplicasCostAnEpoch(),
        rows.IsrAndElrAreValid(),
        rows.TheFencedAreNotInSync(),
        rows.LeadersAreInSync(),
        rows.ReassignmentsAreValid(),
        rows.TheInSyncStay(),
        rows.CancelsGoBack(),
        rows.WhoJoinsWasProposed(),
        rows.WhoEndedUncleanlyIsOut(),
        rows.NewIncarnationsLeadNothing(),
        rows.WhoIsAddedIsInSync(),
        rows.EnoughReplicasAreKept(),
        rows.BrokerEpochsIncrease(),
        rows.BrokerEpochsAreOffsets(),
        rows.WhoRecoversIsAlone(),
        rows.UncleanElectionsAreTold(),
        rows.WhoLedLastIsKnown(),
        rows.LastKnownLeadersComeLast(),
        rows.ReassignmentsEndAtOnce(),
        rows.MinIsrHasADefault(),
        placement.NewTopicsBeginAnywhere(),
        placement.CordonedBrokersGetNothingNew(),
        replicas.AppliedMetadataIsCommitted(),
        replicas.WhoJoinsHasWhatIsCommitted(),
        replicas.OneLeaderPerEpoch(),
        replicas.ReplicasAreValid(),
        replicas.WhatBrokersKnowGrows(),
        replicas.HighWatermarksAreValid(),
        replicas.CommitsNeedEnoughInSync(),
        replicas.LeadersKnowTheirIsr(),
        replicas.LeadersWaitForAllCandidates(),
        replicas.LeadersHaveWhatIsCommitted(),
        replicas.CandidatesHaveWhatIsCommitted(),
        replicas.NewestLeadersAreConsistent(),
        replicas.CommittedRecordsAreTheSame(),
        replicas.NothingAcknowledgedIsLost(),
        replicas.ConsumersSeeOneLog(),
        replicas.RefusedRecordsAreNowhere(),
        replicas.RemovedReplicasHoldNothing(),
        replicas.FollowersFetch(),
        answers.AnswersAreCommitted(),
        answers.LiveBrokersKeepTheirEpoch(),
        answers.WhoMayGoLeadsNothing(),
        answers.DrainsGoOn(),
        answers.ToldTopicsAreCommitted(),
        answers.ProducerIdsAreGivenOnce(),
        answers.WhoIsHeardOfIsNotFenced(),
        answers.TheWayBackIsOpen(),
    ]
