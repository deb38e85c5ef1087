"""The image of the cluster as a function of the log.

A follower applies what is committed. A leader applies all that its log holds when it becomes leader, and then its
own records as it proposes them (`Proposals` keeps how to take them back).
"""

from __future__ import annotations

from collections import deque

from quorumd.controller.cluster_image import Change, ClusterImage, undo
from quorumd.log.segmented_log import SegmentedLog
from quorumd.protocol.metadata_record import decode_record
from quorumd.protocol.record_batch import headers, records

READ_BYTES = 1024 * 1024


class StateMachine:
    """Applies records of the log to the image, in order, each once.

    `applied_offset`: the image holds everything below it. `committed_offset`: what of that is never undone.
    """

    def __init__(self, log: SegmentedLog) -> None:
        self.image = ClusterImage()
        self.applied_offset = log.start_offset
        self.committed_offset = log.start_offset
        self._log = log
        self._uncommitted: deque[tuple[int, list[Change]]] = deque()

    def committed(self, high_watermark: int) -> None:
        """Everything below the high watermark is committed: apply what is not applied yet."""
        if high_watermark > self.committed_offset:
            self.committed_offset = high_watermark
        self._apply_up_to(high_watermark)
        while self._uncommitted and self._uncommitted[0][0] <= high_watermark:
            self._uncommitted.popleft()

    def lead(self) -> None:
        """This node became leader: its image is that of its whole log, committed or not."""
        self._apply_up_to(self._log.end_offset)

    def appended(self, end_offset: int) -> None:
        """The leader appended records that its image holds already."""
        self.applied_offset = end_offset

    def lost_leadership(self) -> None:
        """Take back what was read from the log but not committed; proposals are taken back before this."""
        while self._uncommitted:
            undo(reversed(self._uncommitted.pop()[1]))
        self.applied_offset = min(self.applied_offset, self.committed_offset)

    def _apply_up_to(self, end_offset: int) -> None:
        while self.applied_offset < end_offset:
            data = self._log.read(self.applied_offset, READ_BYTES, below=end_offset)
            if not data:
                return
            for header in headers(data):
                if not header.is_control:
                    changes = [
                        change
                        for record in records(data, header)
                        if (change := self.image.apply(decode_record(record.value or b""))) is not None
                    ]
                    if changes and header.end_offset > self.committed_offset:
                        self._uncommitted.append((header.end_offset, changes))
                self.applied_offset = header.end_offset
