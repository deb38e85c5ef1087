"""Looks at a node after every event that may have changed it, and asks the checkers.

Looking is cheap when nothing changed: a few attributes are compared. A changed log is read from where it
changed.
"""

from __future__ import annotations

import json
from math import inf

from quorumd.errors import StorageError
from quorumd.log.meta_properties import partition_folder
from quorumd.simulator.checkers import (
    AcknowledgedWrites,
    Checker,
    CheckpointIsDurable,
    CommittedNeverChanges,
    CommittedOnMajority,
    EpochNeverDecreases,
    EpochsAreDurable,
    HighWatermarkMonotonic,
    ImagesEqual,
    LeaderAppendOnly,
    LeaderCompleteness,
    LeaderHearsOfMajority,
    LogMatching,
    Observation,
    OneLeaderPerEpoch,
    OneVotePerEpoch,
    OnlyCandidatesBeginEpochs,
    OwnEpochCommitsFirst,
    ReadsSeeCommitted,
    RecoveryKeepsDurable,
    SavedVote,
    SavedVoters,
    SavedVotersAreCommitted,
    VotesAreDurable,
)
from quorumd.simulator.cluster import DATA_FOLDER, Machine
from quorumd.simulator.event_heap import Process
from quorumd.simulator.log_mirror import Batch, DurableLog

QUORUM_STATE = f"{partition_folder(DATA_FOLDER)}/quorum-state"
CHECKPOINT = f"{DATA_FOLDER}/replication-offset-checkpoint"
LEADER_LOOKS_MS = 50.0
"""How often a leader is looked at in which nothing changes: silence is no event."""


class Inspector:
    """All checkers of one simulation, and what they are told."""

    def __init__(self) -> None:
        self._disks: dict[int, DurableLog] = {}
        self.committed = CommittedNeverChanges()
        self.leaders = OneLeaderPerEpoch()
        # The committed log comes first: others compare with it.
        self.checkers: list[Checker] = [
            self.leaders,
            RecoveryKeepsDurable(),
            EpochNeverDecreases(),
            OneVotePerEpoch(),
            VotesAreDurable(),
            OnlyCandidatesBeginEpochs(),
            EpochsAreDurable(),
            LeaderHearsOfMajority(),
            LogMatching(),
            LeaderAppendOnly(),
            OwnEpochCommitsFirst(),
            HighWatermarkMonotonic(),
            self.committed,
            LeaderCompleteness(self.committed),
            CommittedOnMajority(self.committed, self._disks),
            CheckpointIsDurable(self.committed, self._disks),
            AcknowledgedWrites(self.committed),
            ReadsSeeCommitted(self.committed),
            SavedVotersAreCommitted(self.committed),
            ImagesEqual(),
        ]
        self._saved: list[tuple[SavedVote, SavedVoters]] = []
        self._checkpointed: list[tuple[int, int]] = []
        self._small_files: dict[tuple[int, str], bytes] = {}
        self._signatures: dict[Process, tuple[object, ...]] = {}

    def watch(self, machine: Machine) -> None:
        """From now on, note what becomes durable on this machine."""
        self._disks[machine.node_id] = machine.durable_log

        def look_at_small_files() -> None:
            node_id = machine.node_id
            if data := self._news(machine, QUORUM_STATE):
                state = json.loads(data.partition(b"\n")[0])
                voters = tuple(voter["voterId"] for voter in state["currentVoters"])
                vote = SavedVote(node_id, state["leaderEpoch"], state["votedId"])
                self._saved.append((vote, SavedVoters(node_id, state["appliedOffset"], voters)))
            if (data := self._news(machine, CHECKPOINT)) and not machine.disk.is_rotten:
                self._checkpointed.append((node_id, int(data.split()[-1])))

        machine.disk.after_sync = look_at_small_files

    def _news(self, machine: Machine, path: str) -> bytes:
        """The durable content of a small file, b"" if it is what it was."""
        data = machine.disk.certain_bytes(path, 0, 1 << 16)
        if data == self._small_files.get((machine.node_id, path)):
            return b""
        self._small_files[machine.node_id, path] = data
        return data

    def look(self, machine: Machine, now_ms: float) -> None:
        """Ask the checkers about what the last event changed. Raises Broken."""
        self._tell_saved()
        node, process = machine.node, machine.process
        if node is None or process is None:
            return
        engine, log = node.engine, node.log
        signature = (
            engine.epoch,
            engine.leader_id,
            engine.is_leader,
            engine.high_watermark,
            log.end_offset,
            node.state_machine.applied_offset,
            machine.disk.changes,
            now_ms // LEADER_LOOKS_MS if engine.is_leader else -1.0,
        )
        if self._signatures.get(process) == signature:
            return
        self._signatures[process] = signature
        try:
            change = machine.mirror.refresh(log.read)
        except StorageError:
            if machine.disk.is_rotten:
                return  # The node will see it, too.
            raise
        seen = Observation(
            machine.node_id,
            machine.life,
            engine.epoch,
            engine.leader_id,
            engine.is_leader,
            engine.high_watermark,
            tuple(voter.key.id for voter in engine.voters.current.voters),
            machine.mirror.batches,
            change.removed,
            change.appended,
        )
        seen.role, seen.now_ms = engine.role.value, now_ms
        if engine.is_leader:
            seen.fetch_timeout_ms = node.settings.raft.fetch_timeout_ms
            seen.awake_since_ms = inf if process.callback_ms else process.busy_until_ms
            seen.last_fetches_ms_ago = {
                voter.key.id: voter.last_fetch_ms_ago
                for voter in engine.describe(machine.time.offset_ms + now_ms * machine.time.rate).voters
                if voter.key.id != machine.node_id
            }
        else:
            # A leader's image holds what it has not committed yet.
            seen.applied_offset = node.state_machine.applied_offset
            seen.image = node.state_machine.image.fingerprint()
        for checker in self.checkers:
            checker.observed(seen)

    def stopped(self, node_id: int, kept: list[Batch]) -> None:
        self._tell_saved()
        for checker in self.checkers:
            checker.stopped(node_id, kept)

    def moved(self, node_id: int, folder: int) -> None:
        """A node's machine has another data folder, and nothing of what was in the one before."""
        self._tell_saved()
        for path in (QUORUM_STATE, CHECKPOINT):
            self._small_files.pop((node_id, path), None)
        for checker in self.checkers:
            checker.moved(node_id, folder)
        self.stopped(node_id, [])

    def acknowledged(self, value: str) -> None:
        for checker in self.checkers:
            checker.acknowledged(value)

    def read(self, value: str) -> None:
        for checker in self.checkers:
            checker.read(value)

    def _tell_saved(self) -> None:
        saved, self._saved = self._saved, []
        for vote, voters in saved:
            for checker in self.checkers:
                checker.saved(vote)
                checker.saved_voters(voters)
        checkpointed, self._checkpointed = self._checkpointed, []
        for node_id, high_watermark in checkpointed:
            for checker in self.checkers:
                checker.checkpointed(node_id, high_watermark)
