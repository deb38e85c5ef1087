"""Promises about brokers and their records, one class each; see `base` for what they can look at.

rows       what is committed of partitions and brokers, and every step of it
placement  where new topics go
replicas   logs, high watermarks, what leaders take for the ISR
answers    what the controller may answer
liveness   what must come to be once nothing goes wrong any more
"""

from __future__ import annotations

from quorumd.simulator.brokers.checkers import metadata, placement, replicas, responses
from quorumd.simulator.brokers.checkers.base import BrokerChecker


def all_checkers() -> list[BrokerChecker]:
    """One of each, for one simulation. What is committed comes first: nothing of a broker is right if that is not."""
    return [
        metadata.PartitionEpochsIncrease(),
        metadata.DroppedReplicasBumpLeaderEpoch(),
        metadata.IsrAndElrAreValid(),
        metadata.FencedBrokersAreNotInSync(),
        metadata.LeadersAreInSync(),
        metadata.ReassignmentsAreValid(),
        metadata.ReassignmentsKeepInSyncReplicas(),
        metadata.ReassignmentsEndAtTargetOrOriginal(),
        metadata.OnlyLeadersExpandIsr(),
        metadata.UncleanBrokersAreNotEligible(),
        metadata.NewIncarnationsLeadNothing(),
        metadata.AddedReplicasAreInSync(),
        metadata.ReassignmentsKeepMinIsr(),
        metadata.BrokerEpochsIncrease(),
        metadata.BrokerEpochsAreOffsets(),
        metadata.RecoveringLeaderIsOnlyIsrMember(),
        metadata.UncleanElectionsAreReported(),
        metadata.LastKnownLeaderIsRecorded(),
        metadata.LastKnownLeaderIsLastResort(),
        metadata.ReassignmentsComplete(),
        metadata.MinIsrDefaultIsSet(),
        placement.FirstLeadersAreSpread(),
        placement.CordonedBrokersGetNoReplicas(),
        replicas.AppliedMetadataIsCommitted(),
        replicas.IsrJoinersHaveCommittedRecords(),
        replicas.OneLeaderPerEpoch(),
        replicas.ReplicasAreValid(),
        replicas.KnownEpochsIncrease(),
        replicas.HighWatermarksAreValid(),
        replicas.CommitsNeedMinIsr(),
        replicas.LeadersKnowTheirIsr(),
        replicas.LeadersWaitForEligibleReplicas(),
        replicas.LeadersHaveCommittedRecords(),
        replicas.EligibleReplicasHaveCommittedRecords(),
        replicas.NewestLeadersAreConsistent(),
        replicas.CommittedRecordsAgree(),
        replicas.AcknowledgedRecordsSurvive(),
        replicas.ConsumersSeeOneLog(),
        replicas.RejectedRecordsAreDropped(),
        replicas.RemovedReplicasHaveNoLog(),
        replicas.FollowersFetch(),
        responses.ResponsesAreCommitted(),
        responses.RunningBrokersKeepTheirEpoch(),
        responses.ShutdownBrokersLeadNothing(),
        responses.ControlledShutdownProgresses(),
        responses.MetadataResponsesAreCommitted(),
        responses.ProducerIdsAreUnique(),
        responses.LiveBrokersAreNotFenced(),
        responses.ReassignmentsCanBeReverted(),
    ]
