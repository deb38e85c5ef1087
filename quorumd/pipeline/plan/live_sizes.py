"""The sizes of partitions as the brokers of a live cluster report them (DescribeLogDirs)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from quorumd.client.broker_addresses import broker_address
from quorumd.errors import ErrorCode, InputIncomplete, RequestFailed, UnsupportedVersion
from quorumd.pipeline.plan.arrays import NONE, Ints, any_in_row
from quorumd.pipeline.plan.state import ClusterState

if TYPE_CHECKING:
    from quorumd.client.admin import AdminClient
    from quorumd.protocol.messages.describe_log_dirs_response import DescribeLogDirsResult

_REQUESTS_AT_ONCE = 16
"""The number of concurrent requests: a response has tens of bytes per replica, so more would take much memory."""

ReplicaSizes = dict[tuple[str, int], int]
"""The bytes of a broker's replicas, by topic and partition."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The sizes that brokers report."""

    by_broker: Mapping[int, ReplicaSizes]
    failures: tuple[str, ...] = ()
    """A line per broker or log directory that reports no sizes."""


async def request_sizes(
    admin: AdminClient, brokers: Iterable[int], show: Callable[[str], None] = lambda text: None
) -> Reported:
    """Request the sizes of these brokers' replicas. Raises RequestFailed if the brokers cannot be listed."""
    cluster = await admin.describe_brokers()
    addresses = {broker.broker_id: broker_address(broker) for broker in cluster.brokers}
    limit, by_broker = asyncio.Semaphore(_REQUESTS_AT_ONCE), dict[int, ReplicaSizes]()
    wanted = sorted(brokers)
    failures: dict[int, list[str]] = {}

    async def request(broker: int) -> None:
        async with limit:
            try:
                if broker not in addresses:
                    raise RequestFailed("it is not registered")
                results = await admin.describe_log_dirs(addresses[broker])
            except (RequestFailed, UnsupportedVersion) as error:
                failures[broker] = [f"broker {broker} reports no sizes: {error}"]
                return
        by_broker[broker], failures[broker] = _sizes_of(results), list(_failures_of(broker, results))
        show(f"sizes of {len(by_broker):,} of {len(wanted):,} brokers")

    await asyncio.gather(*map(request, wanted))
    return Reported(by_broker, tuple(text for broker in wanted for text in failures[broker]))


def _sizes_of(results: Iterable[DescribeLogDirsResult]) -> ReplicaSizes:
    """Return the sizes of the current logs. A log that AlterReplicaLogDirs is moving also has a future log, which is
    left out."""
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for result in results
        for topic in result.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }


def _failures_of(broker: int, results: Iterable[DescribeLogDirsResult]) -> Iterable[str]:
    for result in results:
        if result.error_code != ErrorCode.NONE:
            cause = ErrorCode.describe(result.error_code)
            yield f"log directory {result.log_dir} of broker {broker} reports no sizes: {cause}"


def sizes_of_partitions(state: ClusterState, reported: Reported) -> Ints:
    """Return the size of a replica per partition: the leader's or, if it reports none, the largest replica's.

    Only replicas of the state count: a broker may still hold the log of a deleted topic or of a moved replica.
    Raises InputIncomplete for partitions of which no replica has a size, with the failures.
    """
    index = {name: number for number, name in enumerate(state.names)}
    width = 1 + int(state.partitions.max(initial=0))
    keys = state.topics * width + state.partitions
    largest, of_leader = np.full(len(state), NONE, np.int64), np.full(len(state), NONE, np.int64)
    for broker, sizes in sorted(reported.by_broker.items()):
        known = [
            (index[topic] * width + number, size)
            for (topic, number), size in sizes.items()
            if topic in index and number < width
        ]
        theirs = np.array(known, np.int64).reshape(-1, 2)
        at = np.minimum(np.searchsorted(keys, theirs[:, 0]), len(keys) - 1)
        held = (keys[at] == theirs[:, 0]) & any_in_row(state.assigned[at] == broker)
        rows, values = at[held], theirs[held, 1]
        largest[rows] = np.maximum(largest[rows], values)
        leads = state.leaders[rows] == broker
        of_leader[rows[leads]] = values[leads]
    found = np.where(of_leader >= 0, of_leader, largest)
    lacking = np.flatnonzero(found < 0)
    if len(lacking):
        where = f"{state.names[state.topics[lacking[0]]]}-{state.partitions[lacking[0]]}"
        causes = "; ".join(reported.failures) or "no broker has a log of it"
        raise InputIncomplete(f"{len(lacking)} partitions have no size, such as {where}: {causes}")
    return np.asarray(found)
