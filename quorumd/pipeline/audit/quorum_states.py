"""Checks the votes and leaders in quorum-state files against each other and the logs (Raft paper 5.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from quorumd.ids import NO_NODE
from quorumd.pipeline.audit.control_batches import Controls
from quorumd.pipeline.audit.copies import Copy
from quorumd.pipeline.audit.findings import Finding, Severity
from quorumd.pipeline.audit.sidecar_files import SidecarFiles


def findings_of_states(
    copies: Mapping[int, Copy], sidecar_files: Mapping[int, SidecarFiles], controls: Mapping[int, Controls]
) -> Iterator[Finding]:
    """Return all contradictions, each once."""
    yield from _directories(sidecar_files)
    yield from _leaders(sidecar_files, controls)
    yield from _votes(sidecar_files, controls)
    for node, files in sidecar_files.items():
        yield from files.findings
        if files.state is None:
            if not files.findings:
                detail = "there is no quorum-state, so the vote of the node is not checked"
                yield Finding(Severity.INFO, "NO_STATE", detail, node)
            continue
        yield from _epoch(copies[node], files.state.leader_epoch, controls[node])
        yield from _voters(node, files, controls[node])


def _epoch(copy: Copy, epoch: int, controls: Controls) -> Iterator[Finding]:
    """Check that quorum-state is not behind the log.

    A node saves an epoch before it acts in it. The exception is a new leader, which writes its first record of the
    epoch while the file is being saved.
    """
    last_epoch = copy.last_epoch
    if epoch >= last_epoch:
        return
    first = next((each for each in controls.leaderships if each.epoch > epoch), None)
    is_beginning = first is not None and first.leader == copy.node and first.offset + 1 == copy.end_offset
    detail = f"quorum-state has epoch {epoch}, but the log has epoch {last_epoch}"
    detail += ", whose leader is about to save it" if is_beginning else ": this node could vote twice"
    severity = Severity.INFO if is_beginning else Severity.CRITICAL
    yield Finding(severity, "STATE_BEHIND_LOG", detail, copy.node, epoch_lo=epoch, epoch_hi=last_epoch)


def _directories(sidecar_files: Mapping[int, SidecarFiles]) -> Iterator[Finding]:
    clusters: dict[str, int] = {}
    for node, files in sidecar_files.items():
        meta = files.meta
        if meta is None:
            continue
        # A directory that was given without an ID is node 0.
        if meta.node_id != node and (len(sidecar_files) > 1 or node != 0):
            detail = f"meta.properties has node.id={meta.node_id}: the directory belongs to another node"
            yield Finding(Severity.WARNING, "WRONG_DIRECTORY", detail, node)
        if meta.cluster_id is not None:
            other = clusters.setdefault(meta.cluster_id, node)
            first = next(iter(clusters))
            if meta.cluster_id != first and other == node:
                detail = (
                    f"cluster.id={meta.cluster_id}, but node {clusters[first]} belongs to cluster {first}"
                )
                yield Finding(Severity.CRITICAL, "OTHER_CLUSTER", detail, node, clusters[first])


def _leaders(
    sidecar_files: Mapping[int, SidecarFiles], controls: Mapping[int, Controls]
) -> Iterator[Finding]:
    """Election safety: at most one leader per epoch."""
    known: dict[int, tuple[int, str, int]] = {}
    reported: set[tuple[int, int]] = set()
    for epoch, leader, node, source, offset in _leader_sources(sidecar_files, controls):
        first, first_source, first_node = known.setdefault(epoch, (leader, source, node))
        if leader == first or (epoch, leader) in reported:
            continue
        reported.add((epoch, leader))
        detail = f"epoch {epoch} was led by node {first} ({first_source}) and by node {leader} ({source})"
        yield Finding(
            Severity.CRITICAL, "LEADER_CONTRADICTION", detail, node, first_node, offset_lo=offset,
            offset_hi=None if offset is None else offset + 1, epoch_lo=epoch, epoch_hi=epoch,
        )  # fmt: skip


def _leader_sources(
    sidecar_files: Mapping[int, SidecarFiles], controls: Mapping[int, Controls]
) -> Iterator[tuple[int, int, int, str, int | None]]:
    """Yield (epoch, leader, reporting node, source, offset), from logs first."""
    for node, found in controls.items():
        for each in found.leaderships:
            yield each.epoch, each.leader, node, f"log of node {node} at offset {each.offset}", each.offset
    for node, files in sidecar_files.items():
        if files.state is not None and files.state.leader_id != NO_NODE:
            yield (
                files.state.leader_epoch,
                files.state.leader_id,
                node,
                f"quorum-state of node {node}",
                None,
            )


def _votes(sidecar_files: Mapping[int, SidecarFiles], controls: Mapping[int, Controls]) -> Iterator[Finding]:
    """Check that the votes a leader recorded match the voters' quorum-state: one vote per epoch."""
    reported: set[tuple[int, int, int]] = set()
    for found in controls.values():
        for each in found.leaderships:
            for node in each.granting:
                state = sidecar_files[node].state if node in sidecar_files else None
                key = (node, each.epoch, each.leader)
                if state is None or state.leader_epoch != each.epoch or key in reported:
                    continue
                if state.voted_id in (NO_NODE, each.leader):
                    continue
                reported.add(key)
                detail = (
                    f"according to quorum-state, node {node} voted for node {state.voted_id} in epoch {each.epoch}, "
                    f"but node {each.leader} led that epoch with its vote"
                )
                span = each.offset, each.offset + 1, each.epoch, each.epoch
                yield Finding(
                    Severity.CRITICAL, "VOTE_CONTRADICTION", detail, node, each.leader, None, None, *span
                )


def _voters(node: int, files: SidecarFiles, controls: Controls) -> Iterator[Finding]:
    """Compare the voters in quorum-state with the last VotersRecord applied; Kafka releases save no voters there."""
    state = files.state
    if state is None or not state.current_voters:
        return
    applied = [each for each in controls.voter_sets if each.offset < state.applied_offset]
    if applied and applied[-1].voters != tuple(sorted(state.current_voters)):
        offset, voters = applied[-1]
        saved = list(state.current_voters)
        detail = f"voters are {saved} in quorum-state and {list(voters)} at offset {offset} of the log"
        yield Finding(Severity.WARNING, "VOTERS_DIFFER", detail, node, offset_lo=offset, offset_hi=offset + 1)


def voters_of(
    controls: Mapping[int, Controls], sidecar_files: Mapping[int, SidecarFiles], directories: Sequence[int]
) -> tuple[tuple[int, ...], str]:
    """Return the voters and their source: the log, quorum-state, or else the given directories."""
    sets = [each for found in controls.values() for each in found.voter_sets[-1:]]
    if sets:
        return max(sets).voters, "the VotersRecord"
    leaderships = [each for found in controls.values() for each in found.leaderships[-1:]]
    if leaderships:
        last = max(leaderships, key=lambda each: (each.epoch, each.offset))
        if last.voters:
            return last.voters, f"the LeaderChangeMessage of epoch {last.epoch}"
    states = [b.state for b in sidecar_files.values() if b.state is not None and b.state.current_voters]
    if states:
        newest = max(states, key=lambda state: (state.leader_epoch, state.applied_offset))
        return tuple(sorted(newest.current_voters)), "quorum-state"
    return tuple(directories), "the directories given"
