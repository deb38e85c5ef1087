"""Operators in addition to the administrator: each sends valid and invalid requests about one subject.

operator             sends the requests of a source, one at a time, to random nodes
topics               topics with manual assignments, many per request, some invalid; deletion by name and by id
configs              min.insync.replicas, unclean.leader.election.enable and retention.ms, set, deleted and replaced
elections            preferred and unclean elections
invalid_isr_changes  invalid AlterPartition requests
unregistrations      unregistration of brokers
mistakes             invalid requests about existing partitions, each with its error; elections of all partitions
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from quorumd.controller.cluster_image import ClusterImage
from quorumd.simulator.brokers.operators.configs import ConfigRequests
from quorumd.simulator.brokers.operators.elections import ElectionRequests
from quorumd.simulator.brokers.operators.invalid_isr_changes import InvalidIsrChanges
from quorumd.simulator.brokers.operators.mistakes import PartitionMistakes
from quorumd.simulator.brokers.operators.operator import RequestSource
from quorumd.simulator.brokers.operators.topics import TopicRequests
from quorumd.simulator.brokers.operators.unregistrations import UnregistrationRequests
from quorumd.simulator.brokers.options import OPERATOR_NAMES

SourceFactory = Callable[[Random, Callable[[], ClusterImage], Sequence[int]], RequestSource]

SOURCES: Final[Mapping[str, SourceFactory]] = dict(
    zip(
        OPERATOR_NAMES,
        (
            TopicRequests,
            ConfigRequests,
            ElectionRequests,
            InvalidIsrChanges,
            UnregistrationRequests,
            PartitionMistakes,
        ),
        strict=True,
    )
)
"""The source of requests of each operator, by name."""
