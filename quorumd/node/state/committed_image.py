"""Reports when the image is committed."""

from __future__ import annotations

from quorumd.node.state.proposals import CommitCallback, Proposals
from quorumd.node.state.state_machine import StateMachine


class CommittedImage:
    """Defers responses that read the image until its content is committed.

    A leader's image is ahead of the high watermark, that of a former leader until its rollback is complete, and any
    image may hold part of a batch.
    """

    def __init__(self, state_machine: StateMachine, proposals: Proposals) -> None:
        self._state_machine = state_machine
        self._proposals = proposals

    def when_committed(self, callback: CommitCallback) -> None:
        """Call `callback(True)` once the current content of the image is committed.

        If it may be lost, or the image is not readable, call `callback(False)` in a later turn when it is readable.
        """
        when_readable = self._state_machine.when_readable

        def on_commit(committed: bool) -> None:
            if committed:
                callback(True)
            else:
                when_readable(lambda: callback(False))

        if self._state_machine.is_readable:
            self._proposals.on_commit_deferred(on_commit)
        else:
            on_commit(False)
