"""Reports when the image is committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.undo_log import undo
from quorumd.node.state.proposals import CommitCallback, Proposals
from quorumd.node.state.state_machine import StateMachine
from quorumd.protocol.connection import Request
from quorumd.protocol.routes import Session
from quorumd.protocol.wire import Message


class FinalizedFeatures(NamedTuple):
    """The levels of features at an offset of the log."""

    levels: Mapping[str, int]
    end_offset: int


class CommittedImage:
    """Defers responses that read the image until its content is committed.

    The image of a leader is ahead of the high watermark, as is the image of a former leader until its rollback is
    complete, and any image may hold part of a batch.
    """

    def __init__(self, state_machine: StateMachine, proposals: Proposals) -> None:
        self._state_machine = state_machine
        self._proposals = proposals
        self._features = FinalizedFeatures({}, 0)
        self._image: ClusterImage | None = None
        """The image of `_features`, if all its features were committed then."""
        self._feature_changes = -1

    def features(self) -> FinalizedFeatures:
        """Return the committed feature levels now, without waiting for a commit."""
        machine = self._state_machine
        image, known = machine.image, self._features
        end_offset = min(machine.applied_offset, machine.committed_offset)
        if self._image is image and self._feature_changes == image.feature_changes:
            return FinalizedFeatures(known.levels, end_offset)
        levels, is_committed = dict(image.features), True
        for changes in (self._proposals.uncommitted_changes(), machine.uncommitted_changes()):
            for mapping, name, previous in changes:
                if mapping is image.features:
                    undo([(levels, name, previous)])
                    is_committed = False
        if is_committed:
            self._image, self._feature_changes = image, image.feature_changes
        self._features = FinalizedFeatures(levels, end_offset)
        return self._features

    def respond(self, session: Session, request: Request[Message], describe: Callable[[], Message]) -> None:
        """Respond with the result of `describe()` once the content of the image is committed; if the content may be
        lost, describe the image again."""
        response = describe()

        def on_commit(committed: bool) -> None:
            if committed:
                session.respond(request, response)
            else:
                self.respond(session, request, describe)

        self.when_committed(on_commit)

    def when_committed(self, callback: CommitCallback) -> None:
        """Call `callback(True)` once the current content of the image is committed.

        If it may be lost, or the image is not readable, call `callback(False)` later, once it is readable.
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
