"""What an audit finds (schemas.AUDIT_FINDINGS), and how bad that is.

Codes of one copy of the log
    those of scan.Fault, at a batch; GAP, OVERLAP and EPOCH_REGRESSION also between segments
    EPOCH_WITHOUT_LEADER    an epoch does not begin with the record of its leader
    UNCOVERED_START         the log does not begin at offset 0, and no snapshot has what was before
    CUT_SHORT               the log ends below what this node knew to be committed
Codes of two copies
    DIVERGED                both hold an offset, and only one of them can be what Raft made of it
    UNCOMMITTED_TAIL        they end differently, as Raft allows: one end will be truncated
    BEHIND                  a copy that ends below what is committed
Codes of the files beside the log
    LEADER_CONTRADICTION    two leaders of an epoch
    VOTE_CONTRADICTION      a node's quorum-state has another vote than the leader of that epoch counted
    STATE_BEHIND_LOG        quorum-state is of an epoch below the log's: this node could vote twice
    STATE_UNREADABLE, NO_STATE, VOTERS_DIFFER, WRONG_FOLDER, OTHER_CLUSTER
    SNAPSHOT_DAMAGED, SNAPSHOT_DIFFERS (between nodes, or from the log), SNAPSHOT_NOT_COMPARED, SNAPSHOT_PART
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
    """CRITICAL: what is committed is damaged, or Raft was broken. WARNING: a node, or a file, needs attention.
    INFO: as it may be."""

    INFO = 0
    WARNING = 1
    CRITICAL = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of schemas.AUDIT_FINDINGS. None where a column has no meaning."""

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
        """By column, in their order."""
        return {
            name: self.severity.name if name == "severity" else getattr(self, name)
            for name in schemas.AUDIT_FINDINGS.names
        }


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first, then by offset; each once."""

    def key(finding: Finding) -> tuple[object, ...]:
        offset = -1 if finding.offset_lo is None else finding.offset_lo
        return -finding.severity, offset, finding.code, tuple(map(str, astuple(finding)))

    return sorted(dict.fromkeys(findings), key=key)


def findings_table(findings: Iterable[Finding]) -> pa.Table:
    """For Spark, and for files."""
    import pyarrow as pa

    return pa.Table.from_pylist(
        [finding.row() for finding in findings], schema=schemas.AUDIT_FINDINGS.arrow()
    )
