"""Logs changes of the voters once they are committed."""

from __future__ import annotations

import logging

from quorumd.raft.engine import RaftEngine
from quorumd.raft.voters import VoterAssignment, VoterSet

logger = logging.getLogger("quorumd.node")


class VoterChangeLog:
    """Follows the committed voter records of the log."""

    def __init__(self, engine: RaftEngine) -> None:
        self._engine = engine
        self._voters: VoterSet | None = None
        """The voters of the newest committed voter record that was logged."""
        self._committed_assignment: VoterAssignment | None = None
        """The newest voter record, once it is committed and logged."""

    def committed(self) -> None:
        """Log the voters that a newly committed voter record added and removed."""
        engine, latest = self._engine, self._engine.voters
        if latest is self._committed_assignment:
            return
        high_watermark, before = engine.high_watermark, self._voters
        assignment = engine.voters_before(high_watermark)
        if assignment is latest:
            self._committed_assignment = latest
        if assignment.current == before or not assignment.current.ids:
            return
        self._voters = assignment.current
        if before is None:
            return
        offset = engine.voters_offset_before(high_watermark)
        changes = [
            f"node {voter.key.id} (directory id {voter.key.directory_id}) {verb}"
            for verb, voters, others in (("added", self._voters, before), ("removed", before, self._voters))
            for voter in voters.voters
            if not any(voter.key.matches(other.key) for other in others.voters)
        ]
        if changes:
            ids = ", ".join(map(str, self._voters.ids))
            logger.info("voters are %s: %s by the record at offset %d", ids, " and ".join(changes), offset)
