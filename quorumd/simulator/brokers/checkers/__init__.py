"""Invariants of brokers and their records, one class each; `base` lists the observations that they receive.

metadata        partitions and brokers in the committed metadata, and every change of them
placement       placement of new topics
histories       what producers and consumers saw
replicas        logs, high watermarks, and ISRs as known to leaders
responses       responses of the controller
administration  topics and elections as operators request them
configs         configs as operators set and delete them
proposals       invalid AlterPartition requests
registrations   unregistered brokers and lost log directories
liveness        conditions that hold once faults have ended
"""

from __future__ import annotations

from typing import Final

from quorumd.simulator.brokers.checkers import (
    administration,
    configs,
    histories,
    metadata,
    placement,
    proposals,
    registrations,
    replicas,
    responses,
)
from quorumd.simulator.brokers.checkers.base import BrokerChecker

_CHECKERS: Final[tuple[type[BrokerChecker], ...]] = (
    metadata.PartitionEpochsIncrease,
    metadata.DroppedReplicasBumpLeaderEpoch,
    metadata.IsrAndElrAreValid,
    metadata.FencedBrokersAreNotInSync,
    metadata.LeadersAreInSync,
    metadata.ReassignmentsAreValid,
    metadata.ReassignmentsKeepInSyncReplicas,
    metadata.ReassignmentsEndAtTargetOrOriginal,
    metadata.OnlyLeadersExpandIsr,
    metadata.UncleanBrokersAreNotEligible,
    metadata.NewIncarnationsLeadNothing,
    metadata.AddedReplicasAreInSync,
    metadata.ReassignmentsKeepMinIsr,
    metadata.BrokerEpochsIncrease,
    metadata.BrokerEpochsAreOffsets,
    metadata.RecoveringLeaderIsOnlyIsrMember,
    metadata.UncleanElectionsAreReported,
    metadata.LastKnownLeaderIsRecorded,
    metadata.LastKnownLeaderIsLastResort,
    metadata.ReassignmentsComplete,
    metadata.MinIsrDefaultIsSet,
    placement.FirstLeadersAreSpread,
    placement.CordonedBrokersGetNoReplicas,
    replicas.AppliedMetadataIsCommitted,
    replicas.IsrJoinersHaveCommittedRecords,
    replicas.OneLeaderPerEpoch,
    replicas.ReplicasAreValid,
    replicas.KnownEpochsIncrease,
    replicas.HighWatermarksAreValid,
    replicas.CommitsNeedMinIsr,
    replicas.LeadersKnowTheirIsr,
    replicas.LeadersWaitForEligibleReplicas,
    replicas.LeadersHaveCommittedRecords,
    replicas.EligibleReplicasHaveCommittedRecords,
    replicas.NewestLeadersAreConsistent,
    replicas.CommittedRecordsAgree,
    replicas.AcknowledgedRecordsSurvive,
    replicas.ConsumersSeeOneLog,
    replicas.RejectedRecordsAreDropped,
    replicas.RemovedReplicasHaveNoLog,
    replicas.FollowersFetch,
    histories.ConsumersReadCommittedRecords,
    histories.CommittedRecordsWereProduced,
    histories.ProducersAreNotRepeated,
    histories.TransactionsAreIsolated,
    histories.AllocatedProducerIdsAreUnique,
    histories.GroupOffsetsNeverGoBack,
    histories.PartitionsHaveOneOwner,
    histories.FormerMembersCommitNothing,
    histories.AssignedTopicsAreSubscribed,
    responses.ResponsesAreCommitted,
    responses.RunningBrokersKeepTheirEpoch,
    responses.ShutdownBrokersLeadNothing,
    responses.ShutdownsAreKnownToFollowers,
    responses.ControlledShutdownProgresses,
    responses.MetadataResponsesAreCommitted,
    responses.ProducerIdsAreUnique,
    responses.LiveBrokersAreNotFenced,
    responses.SilentBrokersAreFenced,
    responses.ReassignmentsCanBeReverted,
    administration.RequestedTopicsAreCreated,
    administration.OnlyRequestedTopicsAreDeleted,
    administration.ElectionRequestsTakeEffect,
    configs.ConfigRequestsTakeEffect,
    proposals.InvalidProposalsAreRefused,
    registrations.OnlyRequestedBrokersAreUnregistered,
    registrations.LeadersHaveTheirDirectories,
    registrations.LostDirectoriesAreRecorded,
)
"""Committed metadata first: every other invariant builds on it."""


def all_checkers() -> list[BrokerChecker]:
    """Create one checker per invariant, beginning with the committed metadata, on which the others depend."""
    return [checker() for checker in _CHECKERS]
