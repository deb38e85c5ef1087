"""Requests are freed without the garbage collector, which hardly looks at objects that have become old."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from quorumd.protocol.apis import APIS, BROKER_APIS
from quorumd.protocol.connection import Request
from tests.support.node.nodes import Cluster
from tests.support.node.sample_requests import full_request

KEYS = [key for key in APIS if key not in BROKER_APIS]
SETTLED_MS = 60_000
"""All timeouts of requests have passed."""


@pytest.fixture
def collector() -> Iterator[None]:
    """A collector that keeps what it finds, and does not run by itself."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("role", ["leader", "follower"])
def test_no_api_keeps_requests_in_cycles(role: str) -> None:
    """Errors that are kept refer to the frames that raised them, unless they lose their tracebacks."""
    cluster = Cluster(3).start()
    node = cluster.leader() if role == "leader" else cluster.follower()
    cluster.run(1000)
    for key in KEYS:
        version = APIS[key].max_version
        client = cluster.client(node.settings.node_id)
        for _ in range(3):
            client.send(full_request(key, version), version)
        client.wait(1.0)
        client.close()
    client.wait(SETTLED_MS)
    gc.collect()
    held = {APIS[each.api_key].name for each in gc.garbage if isinstance(each, Request)}
    assert held == set()
