"""The cause of each state of a partition: the first of these that applies to its record.

deleted             the topic was removed; this state ends immediately
snapshot            the log begins with a snapshot that has this state
created             the partition was created
unclean             a leader was elected that may lack committed records: it begins recovery (KIP-704) or, in older
                    logs, was neither in the ISR nor in the ELR and is now alone in the ISR
reassign_start      replicas are being added or removed: a reassignment began or replaced another one
reassign_done       the reassignment ended with its target replicas
reassign_cancelled  the reassignment ended with other replicas, usually the original ones
leader              the leader changed or was lost, whatever happened to the ISR
isr_shrink          a replica left the ISR
isr_expand          a replica joined the ISR
elr                 the eligible leader replicas changed (KIP-966)
min_isr             a change of min.insync.replicas put the partition under it or above it, without a partition record
other               anything else: directories, the order of replicas, the end of a recovery

A reassignment that is replaced by one that completes immediately (to fewer replicas, all in sync) counts as
cancelled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quorumd.pipeline.history.packed import Flags, Ints, PackedLists
from quorumd.pipeline.history.partition_rows import CREATE, MIN_ISR, NO_LEADER, REMOVE, Rows

CAUSES = (
    "deleted",
    "snapshot",
    "created",
    "unclean",
    "reassign_start",
    "reassign_done",
    "reassign_cancelled",
    "leader",
    "isr_shrink",
    "isr_expand",
    "elr",
    "min_isr",
    "other",
)


@dataclass(slots=True)
class Transitions:
    """Rows and the state that is valid at each of them, see `partition_fold`."""

    rows: Rows
    first: Flags
    leader: npt.NDArray[np.int32]
    recovering: npt.NDArray[np.int32]
    reported: dict[str, Ints]
    """By name of a list, the row of `lists` that is valid at each row."""
    lists: dict[str, PackedLists]
    snapshot_offset: int | None

    def before(self, values: npt.NDArray[np.int32], nothing: int) -> npt.NDArray[np.int32]:
        """Return the values of the previous row of the same partition."""
        shifted = np.concatenate([values[:1], values[:-1]])
        shifted[self.first] = nothing
        return shifted

    def moved(self, name: str) -> Ints:
        """Return the rows whose list may differ from the list of the previous row of the same partition."""
        reported = self.reported[name]
        return np.nonzero((reported[1:] != reported[:-1]) & ~self.first[1:])[0] + 1

    def changed(self, name: str) -> Flags:
        """Return True where a list differs from the list of the previous row."""
        reported, rows = self.reported[name], self.moved(name)
        flags = np.zeros(len(reported), np.bool_)
        flags[rows] = self.lists[name].differ(reported[rows], reported[rows - 1])
        return flags


@dataclass(slots=True)
class Causes:
    """Per row: the index in CAUSES, the previous leader (-1 for none), and the numbers of replicas that left and
    joined the ISR."""

    cause: npt.NDArray[np.int8]
    leader_before: npt.NDArray[np.int32]
    isr_left: npt.NDArray[np.int32]
    isr_joined: npt.NDArray[np.int32]


def causes_of(t: Transitions) -> Causes:
    """Return the cause of each state; the causes of previous states are undefined."""
    leader_before = t.before(t.leader, NO_LEADER)
    left, joined = _isr_moves(t)
    reassigning = (t.lists["adding"].lengths[t.reported["adding"]] > 0) | (
        t.lists["removing"].lengths[t.reported["removing"]] > 0
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
    isr, rows = t.reported["isr"], t.moved("isr")
    left, joined = np.zeros(len(isr), np.int32), np.zeros(len(isr), np.int32)
    left[rows], joined[rows] = t.lists["isr"].exchanged(isr[rows - 1], isr[rows])
    left[t.rows.kind == REMOVE] = 0
    return left, joined


def _target_reached(t: Transitions, ended: Flags) -> Flags:
    """Return True where a reassignment ended with its target: the previous replicas without those being removed."""
    rows = np.flatnonzero(ended)
    replicas, removing = t.lists["replicas"], t.lists["removing"]
    before, after = t.reported["replicas"][rows - 1], t.reported["replicas"][rows]
    removed = t.reported["removing"][rows - 1]
    lost, joined = replicas.exchanged(before, after)
    is_target = (joined == 0) & (lost == replicas.shared(before, removing, removed))
    is_target &= replicas.shared(after, removing, removed) == 0
    reached = np.zeros(len(ended), np.bool_)
    reached[rows] = is_target
    return reached


def _unclean(t: Transitions, leader_before: npt.NDArray[np.int32]) -> Flags:
    elected = ~t.first & (t.leader != NO_LEADER) & (t.leader != leader_before)
    begins_recovery = ~t.first & (t.recovering == 1) & (t.before(t.recovering, 0) != 1)
    rows = np.nonzero(elected & (t.lists["isr"].lengths[t.reported["isr"]] == 1))[0]
    leader = t.leader[rows]
    foreign = t.lists["isr"].contain(t.reported["isr"][rows], leader)
    for name in ("isr", "elr"):
        foreign &= ~t.lists[name].contain(t.reported[name][rows - 1], leader)
    unclean = begins_recovery | (elected & (t.recovering == 1))
    unclean[rows] |= foreign
    return np.asarray(unclean)
