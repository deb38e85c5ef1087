"""The checks at the end of a run: of the histories of clients and brokers, and of the nodes' logs and images."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from tests.chaos.client import PADDING, Client
from tests.chaos.cluster import ChaosCluster, ChaosDaemon
from tests.chaos.faults import stop_in_order
from tests.chaos.fleet.history import FleetHistory
from tests.chaos.history import LIST_KEY, Entry, Histories
from tests.chaos.image_hashes import (
    FoldedLog,
    ImageStatistics,
    fold,
    image_differences,
    reported_statistics,
    unfulfilled_acknowledgements,
)
from tests.support.log.log_files import batches, bytes_below, config_changes

LEVEL_S = 30.0
LAST_READER = 9999
TRIES = 50
LEADS = re.compile(r"quorumd\.node: leader in epoch (\d+)")


@dataclass(slots=True)
class Verdict:
    """The results of the checks; a run is correct if it has no anomalies."""

    anomalies: list[str]
    keys: int = 0
    high_watermark: int = 0
    log_bytes: int = 0
    segments: int = 0
    epochs: int = 0
    """The number of epochs with a leader."""
    folded: FoldedLog | None = None
    """The content of the log of the first node."""
    fleet: FleetHistory = field(default_factory=FleetHistory)


def judge(cluster: ChaosCluster, histories: Histories) -> Verdict:
    """Run all checks after the clients have ended and all faults are healed; this shuts the cluster down."""
    verdict = Verdict([])
    verdict.high_watermark = cluster.wait_until_level(LEVEL_S)
    keys = histories.keys()
    verdict.keys = len(keys)
    for entry in asyncio.run(_last_reads(cluster, keys)):
        histories.add(entry)
    reported = {daemon.node_id: reported_statistics(daemon, verdict.high_watermark) for daemon in cluster}
    for daemon in cluster:
        stop_in_order(daemon)
    verdict.anomalies += histories.contradictions()
    verdict.anomalies += _differences(cluster, verdict)
    verdict.anomalies += _images(cluster, reported, verdict)
    verdict.anomalies += _lost_or_duplicated(cluster, histories, verdict.high_watermark)
    verdict.anomalies += _leaders(cluster, verdict)
    verdict.anomalies += [
        f"node {daemon.node_id} printed a traceback" for daemon in cluster if "Traceback" in daemon.log_text()
    ]
    return verdict


async def _last_reads(cluster: ChaosCluster, keys: list[str]) -> list[Entry]:
    """Read every key once more, since old acknowledged writes must still have their effect."""
    reader = Client(LAST_READER, "client-last", cluster.front_addresses, Random(0))
    entries = []
    for key in keys:
        for _ in range(TRIES):
            entries.append(await reader.perform("read", key, None))
            if entries[-1].outcome == "ok":
                break
            await asyncio.sleep(0.1)
        else:
            raise AssertionError(f"{key} could not be read {TRIES} times: {entries[-1]}")
    reader.close()
    return entries


def _differences(cluster: ChaosCluster, verdict: Verdict) -> list[str]:
    """Return the differences between the log of the first node and every other log below the high watermark."""
    first, *others = cluster
    expected = bytes_below(first.partition_directory, verdict.high_watermark)
    verdict.log_bytes = len(expected)
    verdict.segments = len(list(first.partition_directory.glob("*.log")))
    found = []
    if not _reaches(first, verdict.high_watermark):
        found.append(
            f"the log of node {first.node_id} ends below the high watermark {verdict.high_watermark}"
        )
    for other in others:
        data = bytes_below(other.partition_directory, verdict.high_watermark)
        if data != expected:
            position = next(
                (at for at, (one, two) in enumerate(zip(expected, data, strict=False)) if one != two),
                min(len(expected), len(data)),
            )
            found.append(
                f"the logs of nodes {first.node_id} and {other.node_id} differ at byte {position} below the high "
                f"watermark {verdict.high_watermark} ({len(expected)} and {len(data)} bytes)"
            )
    return found


def _reaches(daemon: ChaosDaemon, end_offset: int) -> bool:
    directory = daemon.partition_directory
    last = max(directory.glob("*.log"))
    return max((batch.end_offset for batch in batches(last)), default=int(last.stem)) >= end_offset


def _images(cluster: ChaosCluster, reported: dict[int, ImageStatistics], verdict: Verdict) -> list[str]:
    """Return the differences between the images of nodes and of their logs."""
    offsets = {verdict.high_watermark, *(figures.applied_offset for figures in reported.values())}
    folded = {daemon.node_id: fold(daemon.partition_directory, offsets) for daemon in cluster}
    verdict.folded = folded[min(folded)]
    return list(image_differences(reported, folded, verdict.high_watermark))


def judge_fleet(verdict: Verdict, history: FleetHistory) -> None:
    """Check the acknowledgements to brokers, after the process of the fleet has ended and `judge` was called."""
    verdict.fleet = history
    if verdict.folded is not None:
        verdict.anomalies += unfulfilled_acknowledgements(history, verdict.folded)


def _lost_or_duplicated(cluster: ChaosCluster, histories: Histories, high_watermark: int) -> list[str]:
    """Return the acknowledged writes of registers that are not in the log, and the values that are there twice."""
    first = next(iter(cluster))
    stored = Counter(
        (resource, (value or "").rstrip(PADDING))
        for resource, _, value in config_changes(first.partition_directory, high_watermark)
        if not resource.startswith(LIST_KEY)
    )
    found = [
        f"{key}={value} is in the log {times} times" for (key, value), times in stored.items() if times > 1
    ]
    found += [
        f"{entry.key}={entry.value} was acknowledged and is not in the log"
        for entry in histories.acknowledged_registers()
        if (entry.key, entry.value or "") not in stored
    ]
    return found


def _leaders(cluster: ChaosCluster, verdict: Verdict) -> list[str]:
    """Return the epochs that two nodes led, according to their text logs."""
    claims = sorted(
        {(int(epoch), daemon.node_id) for daemon in cluster for epoch in LEADS.findall(daemon.log_text())}
    )
    verdict.epochs = len({epoch for epoch, _ in claims})
    return [
        f"nodes {one} and {two} both led epoch {epoch}"
        for (epoch, one), (other, two) in pairwise(claims)
        if epoch == other
    ]
