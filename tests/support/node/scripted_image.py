"""A state machine and its committed image that a test sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from quorumd.controller.cluster_image import ClusterImage
from quorumd.node.state.committed_image import CommittedImage, FinalizedFeatures


@dataclass
class ScriptedImage:
    """A state machine with any image, which is readable unless the test says otherwise."""

    image: ClusterImage = field(default_factory=ClusterImage)
    committed_offset: int = 17
    applied_offset: int = 20
    is_readable: bool = True
    readers: list[Callable[[], None]] = field(default_factory=list)

    def when_readable(self, callback: Callable[[], None]) -> None:
        self.readers.append(callback)


@dataclass
class ScriptedCommits(CommittedImage):
    """Callbacks wait while `is_behind`, or the image is not readable."""

    state: ScriptedImage = field(default_factory=ScriptedImage)
    is_behind: bool = False
    waiting: list[Callable[[bool], None]] = field(default_factory=list)

    def features(self) -> FinalizedFeatures:
        return FinalizedFeatures(self.state.image.features, self.state.committed_offset)

    def when_committed(self, callback: Callable[[bool], None]) -> None:
        if not self.state.is_readable:
            self.state.when_readable(lambda: callback(False))
        elif self.is_behind:
            self.waiting.append(callback)
        else:
            callback(True)
