"""A controller whose results are applied to its image immediately, for requests about security."""

from __future__ import annotations

from typing import Any, NamedTuple

from quorumd.controller.cluster_image import ClusterImage
from quorumd.controller.controller import Controller, ControllerSettings
from quorumd.controller.controller_result import ControllerResult
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.feature_level_record import FeatureLevelRecord


class Committed(NamedTuple):
    """A response, without its static type."""

    response: Any


class SecurityController:
    """A controller with an image. New UUIDs are 1, 2, 3 and so on."""

    def __init__(self, **settings: Any) -> None:
        self.now_ms = 1_000_000
        """Unix time."""
        self._uuids = 0
        self.controller = Controller(
            ControllerSettings(**settings),
            lambda: "cluster",
            lambda: 0.0,
            lambda: 0,
            self._uuid,
            lambda: self.now_ms,
        )

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    def _uuid(self) -> KafkaUuid:
        self._uuids += 1
        return KafkaUuid(self._uuids.to_bytes(16, "big"))

    def repeat_uuid(self) -> None:
        """Start again with the first UUID."""
        self._uuids = 0

    def finalize(self, metadata_version: int) -> None:
        self.image.apply(FeatureLevelRecord("metadata.version", metadata_version), [])

    def commit(self, result: ControllerResult) -> Committed:
        """Apply the records of a result, and return its response."""
        for record in result.records:
            self.image.apply(record, [])
        return Committed(result.response)
