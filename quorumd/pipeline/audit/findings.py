"""The findings of an audit (schemas.AUDIT_FINDINGS) and their severity.

Codes of one copy of the log
    those of scan.Fault, at a batch; GAP, OVERLAP and EPOCH_REGRESSION also between segments
    EPOCH_WITHOUT_LEADER    an epoch does not begin with the record of its leader
    UNCOVERED_START         the log does not begin at offset 0, and no snapshot covers the offsets before its start
    CUT_SHORT               the log ends below the high watermark that this node recorded
    SNAPSHOT_BEYOND_LOG     the log ends below the end of a snapshot
    UNDECODABLE_RECORD      a record of a batch with a matching CRC cannot be decoded
    NOT_DECODED             records beyond the decode limit, --fold-records, are not checked
Codes of two copies
    DIVERGED                both hold an offset with different content, and Raft cannot have written both
    UNCOMMITTED_TAIL        they end differently, as Raft allows: one end will be truncated
    BEHIND                  a copy ends below the committed offsets
Codes of the sidecar files
    LEADER_CONTRADICTION    two leaders of an epoch
    VOTE_CONTRADICTION      a node's quorum-state contradicts the votes that the leader of that epoch recorded
    STATE_BEHIND_LOG        the epoch of quorum-state is below that of the log: this node could vote twice
    EPOCHS_CONTRADICT_LOG, INDEX_CONTRADICTS_LOG, PARTITION_METADATA_CONTRADICTS
                            leader-epoch-checkpoint, an index or partition.metadata does not match the log
    STATE_UNREADABLE        meta.properties, quorum-state or the high watermark's checkpoint is invalid
    NO_STATE                there is no quorum-state, so the vote is not checked
    VOTERS_DIFFER           quorum-state has other voters than the last VotersRecord that it covers
    WRONG_DIRECTORY         meta.properties has the node id of another node
    OTHER_CLUSTER           the cluster id in meta.properties differs from that of another node
    SNAPSHOT_DAMAGED        a snapshot has a damaged batch or an invalid record
    SNAPSHOT_DIFFERS        the records of a snapshot differ from those of another node or from the log
    SNAPSHOT_NOT_COMPARED   a snapshot was not compared with the log
    SNAPSHOT_PART           an unfinished or discarded snapshot, which is never read
    STALE_CONFIGS           a stock node's snapshot has configs of removed topics; a WARNING if later topics have them
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from quorumd.pipeline.tables import schemas

if TYPE_CHECKING:
    import pyarrow as pa


class Severity(IntEnum):
    """CRITICAL: committed data is damaged, or an invariant of Raft is violated. WARNING: a node or a file needs
    attention. INFO: a normal condition."""

    INFO = 0
    WARNING = 1
    CRITICAL = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of schemas.AUDIT_FINDINGS; fields that do not apply are None."""

    severity: Severity
    code: str
    detail: str
    node: int | None = None
    peer: int | None = None
    segment: str | None = None
    position: int | None = None
    offset_lo: int | None = None
    offset_hi: int | None = None
    epoch_lo: int | None = None
    epoch_hi: int | None = None
    committed: bool | None = None

    def row(self) -> dict[str, object]:
        """Return the values by column, in the order of the schema."""
        return {
            name: self.severity.name if name == "severity" else getattr(self, name)
            for name in schemas.AUDIT_FINDINGS.names
        }


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by decreasing severity, then by offset, without duplicates."""

    def key(finding: Finding) -> tuple[object, ...]:
        offset = -1 if finding.offset_lo is None else finding.offset_lo
        return -finding.severity, offset, finding.code, tuple(map(str, astuple(finding)))

    return sorted(dict.fromkeys(findings), key=key)


def findings_table(findings: Iterable[Finding]) -> pa.Table:
    """Return findings as an Arrow table."""
    import pyarrow as pa

    return pa.Table.from_pylist(
        [finding.row() for finding in findings], schema=schemas.AUDIT_FINDINGS.arrow()
    )
