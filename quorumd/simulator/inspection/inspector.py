"""Observes a node after every event that may have changed it, and calls the checkers.

An observation without changes is cheap: it compares a few attributes. A changed log is read from the position of the
change.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf

from quorumd.errors import CorruptSnapshot, StorageError
from quorumd.ids import KafkaUuid, OffsetAndEpoch, ReplicaKey
from quorumd.log.meta_properties import partition_directory
from quorumd.node.node import Node
from quorumd.raft.roles import Role
from quorumd.raft.voters import VoterAssignment
from quorumd.simulator.checkers import (
    AcknowledgedVoterChangesAreCommitted,
    AcknowledgedWrites,
    BootstrappedOnce,
    Checker,
    CheckpointIsDurable,
    CommittedDataIsImmutable,
    CommittedDataIsOnMajority,
    EpochMonotonic,
    EpochsAreDurable,
    FeaturesAreFinalized,
    HighWatermarkMonotonic,
    ImagesEqual,
    InvariantViolation,
    KeptRecordsSurvive,
    LeaderAppendOnly,
    LeaderCompleteness,
    LeaderHasMajority,
    LogMatching,
    NewVotersHaveCaughtUp,
    Observation,
    OneLeaderPerEpoch,
    OneVotePerEpoch,
    OnlyCandidatesStartEpochs,
    OwnEpochCommitsFirst,
    ReadsReturnCommitted,
    ReadyNodesServe,
    RecoveryKeepsDurable,
    RemainingVotersFetch,
    RemovedLeadersResign,
    RemovedVotersDoNotCampaign,
    ReplacedDisksDoNotVote,
    SavedVote,
    SavedVoters,
    SavedVotersAreCommitted,
    SingleVoterChanges,
    SnapshotsEqualTheLog,
    VotesAreDurable,
)
from quorumd.simulator.checkers.administration import AdministratorsAreObeyed
from quorumd.simulator.checkers.base import APPLIED, EVERYTHING, FETCHES, HIGH_WATERMARK, LEADERSHIP, LOG
from quorumd.simulator.checkers.committed_state import CommittedState
from quorumd.simulator.checkers.reads import ReadsAreCommitted
from quorumd.simulator.cluster import DATA_DIRECTORY, Machine
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.inspection.durable_files import DurableFiles
from quorumd.simulator.inspection.log_mirror import Batch, DurableLog

QUORUM_STATE = f"{partition_directory(DATA_DIRECTORY)}/quorum-state"
CHECKPOINT = f"{DATA_DIRECTORY}/replication-offset-checkpoint"
LEADER_CHECK_INTERVAL_MS = 50.0
"""Interval at which an unchanged leader is observed, because missing fetches cause no events."""


class _View:
    """The last observation of one process of a node."""

    __slots__ = (
        "_committed",
        "_disk_changes",
        "_end_offset",
        "_machine",
        "_next_check_ms",
        "_role",
        "_seen",
        "_silent",
        "_voters",
        "process",
        "snapshots",
    )  # fmt: skip

    def __init__(self, machine: Machine, process: Process, committed: CommittedDataIsImmutable) -> None:
        self.process = process
        self._committed = committed
        self.snapshots: list[OffsetAndEpoch] = []
        """Snapshots that the checkers have seen."""
        self._machine = machine
        self._seen = Observation(machine.node_id, machine.incarnation, -1, log=machine.mirror.batches)
        self._role: Role | None = None
        self._end_offset = -1
        self._disk_changes = -1
        self._voters: VoterAssignment | None = None
        self._next_check_ms = inf
        self._silent = False
        """Whether a voter has not fetched from this leader yet, so that any event may be its first fetch."""

    def changes(self, node: Node, now_ms: float) -> int:
        """Return the aspects that changed since the last observation, 0 if none. Called after every event of the
        process."""
        engine, seen, role = node.engine, self._seen, node.engine.role
        if self._role is None or now_ms >= self._next_check_ms:
            return EVERYTHING
        changed = 0
        if role is not self._role or engine.epoch != seen.epoch or engine.leader_id != seen.leader_id:
            changed = LEADERSHIP
        if node.log.end_offset != self._end_offset or self._machine.disk.changes != self._disk_changes:
            changed |= LOG
        if engine.high_watermark != seen.high_watermark:
            changed |= HIGH_WATERMARK
        if role is Role.LEADER:
            # Its own appends do not indicate fetches; an advancing high watermark does.
            return changed | FETCHES if self._silent or changed & ~LOG else changed
        if node.state_machine.applied_offset != seen.applied_offset:
            changed |= APPLIED
        return changed

    def look(self, node: Node, changed: int, now_ms: float) -> Observation:
        """Observe the node now. Raises StorageError if its log cannot be read."""
        engine, seen, machine = node.engine, self._seen, self._machine
        seen.removed = seen.appended = ()
        seen.previous_voters = seen.voters
        if changed & LOG:
            self._observe_log(node)
            self._end_offset, self._disk_changes = node.log.end_offset, machine.disk.changes
            if engine.voters is not self._voters:
                self._voters = engine.voters
                seen.voters = tuple(voter.key for voter in self._voters.current.voters)
                changed |= FETCHES
        if changed & LEADERSHIP:
            self._role, seen.role = engine.role, engine.role.value
            seen.epoch, seen.leader_id, seen.is_leader = engine.epoch, engine.leader_id, engine.is_leader
        committed, end_offset = engine.high_watermark, node.log.end_offset
        if machine.exiting and committed > end_offset:
            # The node exits before it has published the effects of a failed append, or before a fetched snapshot
            # has replaced its log, whose last records may not be committed.
            is_replaced = any(snapshot.offset > end_offset for snapshot in node.log.snapshots.ids)
            committed = seen.high_watermark if is_replaced else end_offset
        seen.high_watermark = committed
        seen.now_ms = now_ms
        if seen.is_leader:
            # A leader's image includes uncommitted records.
            seen.applied_offset, seen.image_hash, seen.opaque_records = -1, None, None
            if changed & FETCHES or seen.last_fetches_ms_ago is None:
                self._observe_fetches(node, now_ms)
        else:
            seen.last_fetches_ms_ago = None
            self._next_check_ms, self._silent = inf, False
            if changed & APPLIED:
                seen.applied_offset = node.state_machine.applied_offset
                image = node.state_machine.image
                seen.image_hash, seen.opaque_records = image.hash, frozenset(image.opaque_records.values())
        return seen

    def is_torn_copy(self, node: Node, snapshot: OffsetAndEpoch) -> bool:
        """Whether a power loss may have torn a snapshot that an operator had copied."""
        if not self._machine.has_copies:
            return False
        try:
            node.log.snapshots.check(snapshot)
        except CorruptSnapshot:
            return True
        return False

    def _observe_log(self, node: Node) -> None:
        seen, log, machine = self._seen, node.log, self._machine
        try:
            change = machine.mirror.refresh(
                log.read, log.start_offset, self._committed.batches, sync_failed=machine.sync_failed
            )
        except ValueError as fault:
            raise InvariantViolation(
                "a log begins where committed data ends", f"node {seen.node_id}: {fault}"
            ) from fault
        seen.removed, seen.appended = change

    def _observe_fetches(self, node: Node, now_ms: float) -> None:
        seen, machine = self._seen, self._machine
        own_ms = machine.time.offset_ms + now_ms * machine.time.rate
        seen.last_fetches_ms_ago = {
            voter.key: voter.last_fetch_ms_ago
            for voter in node.engine.describe(own_ms).voters
            if voter.key.id != machine.node_id
        }
        seen.fetch_timeout_ms = float(node.settings.raft.fetch_timeout_ms)
        seen.awake_since_ms = inf if self.process.callback_ms else self.process.busy_until_ms
        self._next_check_ms = now_ms + LEADER_CHECK_INTERVAL_MS
        self._silent = inf in seen.last_fetches_ms_ago.values()


class Inspector:
    """Passes the observations of one simulation to all checkers."""

    def __init__(self, configured_voters: tuple[int, ...] = ()) -> None:
        self._disks: dict[int, DurableLog] = {}
        self.committed = CommittedDataIsImmutable()
        self.leaders = OneLeaderPerEpoch()
        self.snapshots = SnapshotsEqualTheLog(self.committed)
        self.features = FeaturesAreFinalized(self.committed)
        self.readiness = ReadyNodesServe(configured_voters)
        self.administration = AdministratorsAreObeyed()
        self.reads = ReadsAreCommitted(CommittedState(self.committed))
        self._voter_changes = AcknowledgedVoterChangesAreCommitted(self.committed)
        # The committed log comes before the checkers that compare with it.
        self.checkers: list[Checker] = [
            self.leaders,
            RecoveryKeepsDurable(),
            EpochMonotonic(),
            OneVotePerEpoch(),
            VotesAreDurable(),
            OnlyCandidatesStartEpochs(),
            EpochsAreDurable(),
            LeaderHasMajority(),
            LogMatching(),
            LeaderAppendOnly(),
            OwnEpochCommitsFirst(),
            HighWatermarkMonotonic(),
            self.committed,
            LeaderCompleteness(self.committed),
            CommittedDataIsOnMajority(self.committed, self._disks),
            CheckpointIsDurable(self.committed, self._disks),
            SingleVoterChanges(),
            RemovedLeadersResign(),
            RemovedVotersDoNotCampaign(),
            RemainingVotersFetch(),
            NewVotersHaveCaughtUp(self.committed, self._disks),
            BootstrappedOnce(self.committed),
            ReplacedDisksDoNotVote(self.committed, self._disks),
            AcknowledgedWrites(self.committed),
            ReadsReturnCommitted(self.committed),
            SavedVotersAreCommitted(self.committed),
            ImagesEqual(),
            self.snapshots,
            self.readiness,
            KeptRecordsSurvive(self.committed),
            self.features,
            self._voter_changes,
        ]
        self._saved: list[tuple[SavedVote, SavedVoters]] = []
        self._checkpointed: list[tuple[int, int]] = []
        self._files: dict[int, DurableFiles] = {}
        self._views: dict[int, _View] = {}
        self._observers: dict[int, list[Callable[[Observation], None]]] = {}

    def watch(self, machine: Machine) -> None:
        """Observe the files that become durable on this machine from now on."""
        node_id = machine.node_id
        self._disks[node_id] = machine.durable_log
        for checker in self.checkers:
            checker.moved(node_id, machine.directory_id)

        def quorum_state_saved(data: bytes) -> None:
            state = json.loads(data.partition(b"\n")[0])
            voters = tuple(voter["voterId"] for voter in state["currentVoters"])
            vote = SavedVote(node_id, state["leaderEpoch"], state["votedId"], machine.directory_id)
            self._saved.append((vote, SavedVoters(node_id, state["appliedOffset"], voters)))

        def checkpoint_saved(data: bytes) -> None:
            if not machine.disk.is_corrupted:
                self._checkpointed.append((node_id, int(data.split()[-1])))

        callbacks = {QUORUM_STATE: quorum_state_saved, CHECKPOINT: checkpoint_saved}
        self._files[node_id] = DurableFiles(machine.disk, callbacks)
        machine.disk.after_sync = self._files[node_id].synced

    def look(self, machine: Machine, now_ms: float) -> None:
        """Run the checkers on the changes of the last event. Raises InvariantViolation."""
        if self._saved or self._checkpointed:
            self._report_quorum_state()
        node, process = machine.node, machine.process
        if node is None or process is None:
            return
        view = self._views.get(machine.node_id)
        if view is None or view.process is not process:
            view = self._views[machine.node_id] = _View(machine, process, self.committed)
        changed = view.changes(node, now_ms)
        if not changed:
            return
        try:
            seen = view.look(node, changed, now_ms)
        except StorageError:
            if machine.disk.is_corrupted or machine.sync_failed:
                return  # The node will detect it, too.
            raise
        for observed in self._observers.get(changed) or self._checkers_of(changed):
            observed(seen)
        if node.log.snapshots.ids != view.snapshots:
            self._observe_snapshots(node, view)

    def _observe_snapshots(self, node: Node, view: _View) -> None:
        snapshots = node.log.snapshots
        for snapshot in [snapshot for snapshot in snapshots.ids if snapshot not in view.snapshots]:
            data = snapshots.read(snapshot, 0, snapshots.size(snapshot) or 0)
            if data is not None and not view.is_torn_copy(node, snapshot):
                for checker in self.checkers:
                    checker.snapshot_seen(node.settings.node_id, snapshot, data)
        view.snapshots = list(snapshots.ids)

    def _checkers_of(self, changed: int) -> list[Callable[[Observation], None]]:
        observers: list[Callable[[Observation], None]] = [
            checker.observed for checker in self.checkers if checker.aspects & changed
        ]
        self._observers[changed] = observers
        return observers

    def stopped(self, node_id: int, recoverable: list[Batch]) -> None:
        self._report_quorum_state()
        for checker in self.checkers:
            checker.stopped(node_id, recoverable)

    def moved(self, node_id: int, directory_id: KafkaUuid) -> None:
        """Record that a machine has a new log directory, without the content of the previous one."""
        self._report_quorum_state()
        self._files[node_id].forget()
        for checker in self.checkers:
            checker.moved(node_id, directory_id)
        self.stopped(node_id, [])

    def voter_change_requested(self, replica: ReplicaKey, is_added: bool) -> Callable[[], None]:
        return self._voter_changes.voter_change_requested(replica, is_added)

    def acknowledged(self, value: str) -> None:
        for checker in self.checkers:
            checker.acknowledged(value)

    def read(self, value: str) -> None:
        for checker in self.checkers:
            checker.read(value)

    def _report_quorum_state(self) -> None:
        saved, self._saved = self._saved, []
        for vote, voters in saved:
            for checker in self.checkers:
                checker.saved(vote)
                checker.saved_voters(voters)
        checkpointed, self._checkpointed = self._checkpointed, []
        for node_id, high_watermark in checkpointed:
            for checker in self.checkers:
                checker.checkpointed(node_id, high_watermark)
