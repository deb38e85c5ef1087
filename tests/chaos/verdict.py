"""The end of a run: checks the histories of clients and brokers, and compares the logs."""

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
    """The results of the checks; a run without anomalies is correct."""

    anomalies: list[str]
    keys: int = 0
    high_watermark: int = 0
    log_bytes: int = 0
    segments: int = 0
    epochs: int = 0
    """Number of epochs with a leader."""
    folded: FoldedLog | None = None
    """The folded log of the first node."""
    fleet: FleetHistory = field(default_factory=FleetHistory)


def judge(cluster: ChaosCluster, histories: Histories) -> Verdict:
    """Run all checks after the clients have ended and all faults are healed. Shuts the cluster down."""
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
    """Read every key once more: old acknowledged writes must still be there."""
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
    """Nodes whose log differs from that of node 1 below the high watermark of all."""
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
    """Differences between the images of logs and nodes."""
    offsets = {verdict.high_watermark, *(figures.applied_offset for figures in reported.values())}
    folded = {daemon.node_id: fold(daemon.partition_directory, offsets) for daemon in cluster}
    verdict.folded = folded[min(folded)]
    return list(image_differences(reported, folded, verdict.high_watermark))


def judge_fleet(verdict: Verdict, history: FleetHistory) -> None:
    """Check acknowledgements to brokers, after their process has ended and the cluster was checked."""
    verdict.fleet = history
    if verdict.folded is not None:
        verdict.anomalies += unfulfilled_acknowledgements(history, verdict.folded)


def _lost_or_duplicated(cluster: ChaosCluster, histories: Histories, high_watermark: int) -> list[str]:
    """Acknowledged writes of registers that are not in the log, and values appended twice."""
    first = next(iter(cluster))
    stored = Counter(
        (resource, (value or "").rstrip(PADDING))
        for resource, _, value in config_changes(first.partition_directory, high_watermark)
        if not resource.startswith(LIST_KEY)
    )
    found = [
        f"{key}={value} stands {times} times in the log"
        for (key, value), times in stored.items()
        if times > 1
    ]
    found += [
        f"{entry.key}={entry.value} was acknowledged and is not in the log"
        for entry in histories.acknowledged_registers()
        if (entry.key, entry.value or "") not in stored
    ]
    return found


def _leaders(cluster: ChaosCluster, verdict: Verdict) -> list[str]:
    """Epochs that two nodes led, according to their logs."""
    claims = sorted(
        {(int(epoch), daemon.node_id) for daemon in cluster for epoch in LEADS.findall(daemon.log_text())}
    )
    verdict.epochs = len({epoch for epoch, _ in claims})
    return [
        f"nodes {one} and {two} both led epoch {epoch}"
        for (epoch, one), (other, two) in pairwise(claims)
        if epoch == other
    ]
