"""Why a partition came to be as it is: what the record did, the first of these that holds.

deleted             its topic was removed; ends at once
snapshot            the log begins behind a snapshot that has it so
created             a record made it
unclean             a leader was elected that may lack committed records: it begins to recover (KIP-704), or, before
                    that was recorded, it was neither in sync nor eligible and is now alone in the ISR
reassign_start      replicas are to be added or removed: a reassignment began, or another took its place
reassign_done       none are any more, and the replicas are those that were to be
reassign_cancelled  none are any more, and the replicas are not those: they are what they were before, as a rule
leader              another one leads, or none, whatever else that did to the ISR
isr_shrink          somebody left the ISR
isr_expand          somebody joined the ISR
elr                 who is eligible though not in sync has changed (KIP-966)
min_isr             another min.insync.replicas: enough are in sync now, or no longer; no record of the partition
other               anything else: directories, the order of replicas, the end of a recovery

Where a reassignment is replaced by one that is done at once (to fewer replicas, all of them in sync), that is the end
of the first one: cancelled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quorumd.pipeline.history.packed import Flags, Ints, PackedLists
from quorumd.pipeline.history.partition_rows import CREATE, MIN_ISR, NO_LEADER, REMOVE, Rows

CAUSES = (
    *("deleted", "snapshot", "created", "unclean", "reassign_start", "reassign_done", "reassign_cancelled"),
    *("leader", "isr_shrink", "isr_expand", "elr", "min_isr", "other"),
)


@dataclass(slots=True)
class Transitions:
    """Rows with what holds at each of them, as `partition_fold` has it; `said` are rows of `lists`."""

    rows: Rows
    first: Flags
    leader: npt.NDArray[np.int32]
    recovering: npt.NDArray[np.int32]
    said: dict[str, Ints]
    lists: dict[str, PackedLists]
    snapshot_offset: int | None

    def before(self, values: npt.NDArray[np.int32], nothing: int) -> npt.NDArray[np.int32]:
        """The values one row before, of the same partition."""
        shifted = np.concatenate([values[:1], values[:-1]])
        shifted[self.first] = nothing
        return shifted

    def moved(self, name: str) -> Ints:
        """Rows where a list may be another than one row before, of the same partition."""
        said = self.said[name]
        return np.nonzero((said[1:] != said[:-1]) & ~self.first[1:])[0] + 1

    def changed(self, name: str) -> Flags:
        """Where a list is another one than one row before."""
        said, rows = self.said[name], self.moved(name)
        flags = np.zeros(len(said), np.bool_)
        flags[rows] = self.lists[name].differ(said[rows], said[rows - 1])
        return flags


@dataclass(slots=True)
class Causes:
    """For each row: number in CAUSES, who led before (-1 for none), how many left the ISR and joined it."""

    cause: npt.NDArray[np.int8]
    leader_before: npt.NDArray[np.int32]
    isr_left: npt.NDArray[np.int32]
    isr_joined: npt.NDArray[np.int32]


def causes_of(t: Transitions) -> Causes:
    """Causes and what goes with them; those of states from before the records mean nothing."""
    leader_before = t.before(t.leader, NO_LEADER)
    left, joined = _isr_moves(t)
    reassigning = (t.lists["adding"].lengths[t.said["adding"]] > 0) | (
        t.lists["removing"].lengths[t.said["removing"]] > 0
    )
    target_changed = t.changed("adding") | t.changed("removing")
    ended = ~reassigning & target_changed
    reached = _target_reached(t, ended)
    is_seed = np.zeros(len(t.rows), np.bool_)
    if t.snapshot_offset is not None:
        is_seed = (t.rows.kind == CREATE) & (t.rows.offset == t.snapshot_offset)
    conditions = {
        "deleted": t.rows.kind == REMOVE,
        "snapshot": is_seed,
        "created": t.first,
        "unclean": _unclean(t, leader_before),
        "reassign_start": reassigning & target_changed,
        "reassign_done": reached,
        "reassign_cancelled": ended & ~reached,
        "leader": t.leader != leader_before,
        "isr_shrink": left > 0,
        "isr_expand": joined > 0,
        "elr": t.changed("elr") | t.changed("last_known_elr"),
        "min_isr": t.rows.kind == MIN_ISR,
    }
    cause = np.select(
        list(conditions.values()),
        [CAUSES.index(name) for name in conditions],
        CAUSES.index("other"),
    )
    return Causes(cause.astype(np.int8), leader_before, left, joined)


def _isr_moves(t: Transitions) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    isr, rows = t.said["isr"], t.moved("isr")
    left, joined = np.zeros(len(isr), np.int32), np.zeros(len(isr), np.int32)
    left[rows], joined[rows] = t.lists["isr"].exchanged(isr[rows - 1], isr[rows])
    left[t.rows.kind == REMOVE] = 0
    return left, joined


def _target_reached(t: Transitions, ended: Flags) -> Flags:
    """Where a reassignment ended with the replicas that were to be: those before, but for the ones to be removed."""
    rows = np.flatnonzero(ended)
    replicas, removing = t.lists["replicas"], t.lists["removing"]
    before, after = t.said["replicas"][rows - 1], t.said["replicas"][rows]
    removed = t.said["removing"][rows - 1]
    lost, joined = replicas.exchanged(before, after)
    is_target = (joined == 0) & (lost == replicas.shared(before, removing, removed))
    is_target &= replicas.shared(after, removing, removed) == 0
    reached = np.zeros(len(ended), np.bool_)
    reached[rows] = is_target
    return reached


def _unclean(t: Transitions, leader_before: npt.NDArray[np.int32]) -> Flags:
    elected = ~t.first & (t.leader != NO_LEADER) & (t.leader != leader_before)
    begins_to_recover = ~t.first & (t.recovering == 1) & (t.before(t.recovering, 0) != 1)
    rows = np.nonzero(elected & (t.lists["isr"].lengths[t.said["isr"]] == 1))[0]
    leader = t.leader[rows]
    foreign = t.lists["isr"].contain(t.said["isr"][rows], leader)
    for name in ("isr", "elr"):
        foreign &= ~t.lists[name].contain(t.said[name][rows - 1], leader)
    unclean = begins_to_recover | (elected & (t.recovering == 1))
    unclean[rows] |= foreign
    return np.asarray(unclean)
