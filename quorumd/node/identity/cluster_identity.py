"""The cluster id: made by the first leader, adopted once committed, validated ever after (KIP-595 draft 6.2)."""

from __future__ import annotations

from quorumd.ports import Entropy


class ClusterIdentity:
    """Which cluster this node belongs to.

    `cluster_id` is the committed one, None as long as there is none; it never changes once it is known.
    """

    def __init__(self, cluster_id: str | None, entropy: Entropy) -> None:
        self.cluster_id = cluster_id
        self._entropy = entropy
        self._uncommitted: list[tuple[int, str]] = []

    def accepts(self, requested: str | None) -> bool:
        """Whether a request that claims this cluster id may be served: nobody's id passes, another's does not
        (hole 23, as Kafka ships it)."""
        return not requested or self.cluster_id is None or requested == self.cluster_id

    def id_for_new_record(self) -> str:
        """The id that a leader writes: the committed one, else the one its log has, else a new one."""
        if self.cluster_id is not None:
            return self.cluster_id
        return self._uncommitted[-1][1] if self._uncommitted else str(self._entropy.uuid())

    def appended(self, offset: int, cluster_id: str | None) -> None:
        """A voter record with this id is in the log at `offset`."""
        if cluster_id:
            self._uncommitted.append((offset, cluster_id))

    def truncated(self, end_offset: int) -> None:
        """The log was cut to `end_offset`."""
        while self._uncommitted and self._uncommitted[-1][0] >= end_offset:
            self._uncommitted.pop()

    def committed(self, high_watermark: int) -> tuple[bool, str | None]:
        """(newly adopted, contradicting id) once everything below the high watermark is committed."""
        adopted = False
        while self._uncommitted and self._uncommitted[0][0] < high_watermark:
            _, cluster_id = self._uncommitted.pop(0)
            if self.cluster_id is None:
                self.cluster_id, adopted = cluster_id, True
            elif cluster_id != self.cluster_id:
                return adopted, cluster_id
        return adopted, None
