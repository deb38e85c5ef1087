"""When what the image of this node tells is committed."""

from __future__ import annotations

from quorumd.node.state.proposals import CommitCallback, Proposals
from quorumd.node.state.state_machine import StateMachine


class CommittedImage:
    """The image of a leader is ahead of what is committed. That of one that was replaced is until all that is taken
    back, and that of any node may hold a part of a batch."""

    def __init__(self, state_machine: StateMachine, proposals: Proposals) -> None:
        self._state_machine = state_machine
        self._proposals = proposals

    def when_committed(self, outcome: CommitCallback) -> None:
        """Call `outcome(True)` once all that the image holds now is committed. If that may never be, or the image was
        not readable, call `outcome(False)` in a later turn in which it is."""
        when_readable = self._state_machine.when_readable

        def on_commit(committed: bool) -> None:
            if committed:
                outcome(True)
            else:
                when_readable(lambda: outcome(False))

        if self._state_machine.is_readable:
            self._proposals.on_commit_deferred(on_commit)
        else:
            on_commit(False)
