"""Waits until three controllers commit a topic."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from contextlib import suppress

from quorumd.client.admin import AdminClient
from quorumd.errors import ErrorCode, RequestFailed
from quorumd.protocol.messages import create_topics_request as creation
from quorumd.protocol.messages.create_topics_response import CreateTopicsResponse

TIMEOUT_S = 600.0
ATTEMPT_MS = 1_000
RETRY_S = 0.02
NO_BROKERS = (ErrorCode.NONE, ErrorCode.INVALID_REPLICATION_FACTOR)
"""The error codes of a controller that has an image; before the first broker is registered, it can place no topic."""


async def first_commit(
    addresses: Sequence[tuple[str, int]], name: str, accepted: Collection[int] = (ErrorCode.NONE,)
) -> float:
    """Try to create a topic until the response is accepted; return the seconds it took. Raises TimeoutError."""
    began = time.perf_counter()
    attempt = 0
    async with asyncio.timeout(TIMEOUT_S):
        while not await _creates(addresses, f"{name}-{attempt}", accepted):
            attempt += 1
            await asyncio.sleep(RETRY_S)
    return time.perf_counter() - began


async def _creates(addresses: Sequence[tuple[str, int]], name: str, accepted: Collection[int]) -> bool:
    with suppress(RequestFailed, TimeoutError, OSError):
        async with AdminClient(addresses, client_id="bench", timeout_ms=ATTEMPT_MS) as admin:
            topic = creation.CreatableTopic(name, 1, 1)
            reply = await admin.send(creation.CreateTopicsRequest([topic], ATTEMPT_MS, False))
            assert isinstance(reply, CreateTopicsResponse)
            return reply.topics[0].error_code in accepted
    return False
