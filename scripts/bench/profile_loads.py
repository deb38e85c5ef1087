"""The loads of `profile_commit`: each repeats one kind of request, and counts requests and partitions."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from quorumd.client.admin import AdminClient
from quorumd.protocol.messages import create_topics_request as creation
from quorumd.protocol.messages.create_topics_response import CreateTopicsResponse
from quorumd.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from quorumd.protocol.messages.metadata_response import MetadataResponse
from scripts.bench.broker_fleet import Fleet
from scripts.bench.isr_load import create_leaders, run_load
from scripts.bench.processes import BenchError

PARTITIONS_PER_TOPIC = 1_000
TOPICS_PER_REQUEST = 10
READERS = 8
BATCH = 1_000
BATCHES_IN_FLIGHT = 4


@dataclass(frozen=True, slots=True)
class Counts:
    """The completed requests of a load, and the partitions in these requests."""

    requests: int
    partitions: int


Work = Callable[[float], Awaitable[Counts]]
"""Runs a load for this many seconds."""


@dataclass(frozen=True, slots=True)
class LoadKind:
    """A kind of load."""

    prepare: Callable[[Fleet, AdminClient], Awaitable[Work]]
    """Prepares the load, and returns the function that runs it."""
    brokers: int = 256
    """The number of brokers to register for it."""


def _isr(in_flight: int, partitions: int) -> LoadKind:
    async def prepare(fleet: Fleet, admin: AdminClient) -> Work:
        leaders = await create_leaders(fleet, admin, in_flight, partitions)

        async def work(seconds: float) -> Counts:
            before = sum(leader.changes for leader in leaders)
            await run_load(leaders, seconds)
            changes = sum(leader.changes for leader in leaders) - before
            return Counts(changes, changes * partitions)

        return work

    return LoadKind(prepare)


async def _creation(fleet: Fleet, admin: AdminClient) -> Work:
    del fleet
    numbers = itertools.count()

    async def work(seconds: float) -> Counts:
        requests, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            topics = [
                creation.CreatableTopic(f"many-{number}", PARTITIONS_PER_TOPIC, 3)
                for number in itertools.islice(numbers, TOPICS_PER_REQUEST)
            ]
            reply = await admin.send(creation.CreateTopicsRequest(topics, 60_000, False))
            assert isinstance(reply, CreateTopicsResponse)
            if any(parsed.error_code for parsed in reply.topics):
                raise BenchError(f"a topic was not created: {reply.topics[0].error_message}")
            requests += 1
        return Counts(requests, requests * TOPICS_PER_REQUEST * PARTITIONS_PER_TOPIC)

    return work


async def _heartbeats(fleet: Fleet, admin: AdminClient) -> Work:
    del admin

    async def work(seconds: float) -> Counts:
        requests, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            fenced = await asyncio.gather(*(broker.heartbeat() for broker in fleet.brokers))
            if any(fenced):
                raise BenchError("a broker was fenced")
            requests += len(fenced)
        return Counts(requests, 0)

    return work


async def _metadata(fleet: Fleet, admin: AdminClient) -> Work:
    await (await _creation(fleet, admin))(0.001)
    names = [MetadataRequestTopic(name=f"many-{number}") for number in range(TOPICS_PER_REQUEST)]

    async def work(seconds: float) -> Counts:
        requests, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            reply = await fleet.brokers[requests % READERS].send(MetadataRequest(names), MetadataResponse)
            if any(len(topic.partitions) != PARTITIONS_PER_TOPIC for topic in reply.topics):
                raise BenchError("a Metadata response lacks partitions")
            requests += 1
        return Counts(requests, requests * TOPICS_PER_REQUEST * PARTITIONS_PER_TOPIC)

    return work


LOADS: Mapping[str, LoadKind] = {
    **{f"isr-{in_flight}": _isr(in_flight, 1) for in_flight in (1, 16, 64, 256)},
    "isr-batches": _isr(BATCHES_IN_FLIGHT, BATCH),
    "creation": LoadKind(_creation, brokers=6),
    "heartbeats": LoadKind(_heartbeats, brokers=1_000),
    "metadata": LoadKind(_metadata, brokers=READERS),
}
