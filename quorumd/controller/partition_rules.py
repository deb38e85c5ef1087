"""The rules for changes of a topic's partitions, from the image."""

from __future__ import annotations

from collections.abc import Callable

from quorumd.controller.controller import Controller
from quorumd.controller.partition_change import PartitionRules


def rules_for(
    controller: Controller,
    topic: str,
    is_active: Callable[[int], bool] | None = None,
    min_isr: int | None = None,
    unclean_election: bool | None = None,
) -> PartitionRules:
    """Return the rules for the partitions of a topic.

    `is_active`, `min_isr` and `unclean_election` override the image where records of the same batch change them.
    """
    image = controller.image
    return PartitionRules(
        image.min_isr(topic) if min_isr is None else min_isr,
        image.elr_enabled,
        image.unclean_election(topic) if unclean_election is None else unclean_election,
        is_active or controller.is_active,
        controller.directory_of,
        controller.is_online,
    )
