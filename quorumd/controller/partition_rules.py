"""The rules for changes of a topic's partitions, from the image."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.controller.controller import Controller
from quorumd.ids import KafkaUuid


class PartitionRules:
    """The inputs of a partition change besides the partition and the requested change, for one topic.

    `is_active`, `min_isr` and `unclean_election` override the image where records of the same batch change them. Most
    changes need no config, so a config is read when it is first needed; the image must not change before.
    """

    __slots__ = ("_controller", "_is_active", "_min_isr", "_topic", "_unclean_election", "elr_enabled")

    def __init__(
        self,
        controller: Controller,
        topic: str,
        is_active: Callable[[int], bool] | None = None,
        min_isr: int | None = None,
        unclean_election: bool | None = None,
    ) -> None:
        self._controller = controller
        self._topic = topic
        self._is_active = is_active
        self._min_isr = min_isr
        self._unclean_election = unclean_election
        self.elr_enabled = controller.image.elr_enabled

    @property
    def min_isr(self) -> int:
        """The topic's min.insync.replicas."""
        if self._min_isr is None:
            self._min_isr = self._controller.image.min_isr(self._topic)
        return self._min_isr

    @property
    def unclean_election(self) -> bool:
        """Whether the topic allows unclean election."""
        if self._unclean_election is None:
            self._unclean_election = self._controller.image.unclean_election(self._topic)
        return self._unclean_election

    def is_active(self, broker_id: int) -> bool:
        """Whether the broker may lead."""
        if self._is_active is not None:
            return self._is_active(broker_id)
        return self._controller.is_active(broker_id)

    def directory_of(self, broker_id: int) -> KafkaUuid:
        """Return the directory of a new replica on the broker."""
        return self._controller.directory_of(broker_id)

    def is_online(self, broker_id: int, directory: KafkaUuid) -> bool:
        """Whether this directory of the broker is online."""
        return self._controller.is_online(broker_id, directory)
