"""A broker stand-in that registers and sends heartbeats, and has no data.

It advertises the address of a node of the quorum, so that clients of that broker reach a server.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from kio.schema.metadata.v12 import request as metadata
from kio.schema.types import BrokerId
from kio.schema.unregister_broker.v0 import request as unregister_broker

from quorumd.client.cluster_client import ClusterClient
from quorumd.errors import ErrorCode, RequestFailed
from scripts.bench.broker_fleet import BrokerStub
from tests.support.processes.daemons import Cluster, wait_for
from tests.support.processes.requests import Refused
from tests.support.processes.wire import Wire

Address = tuple[str, int]

HEARTBEAT_S = 0.2
RESPONSE_TIMEOUT_MS = 5_000


class BrokerStandIn:
    """One broker, from `start` to `stop`. A thread sends its requests to the leader of the quorum."""

    def __init__(
        self, broker_id: int, cluster: Cluster, advertised: Address, rack: str | None = None
    ) -> None:
        self.broker_id = broker_id
        self.is_unfenced = False
        self._cluster = cluster
        self._advertised = advertised
        self._rack = rack
        self._stub: BrokerStub | None = None
        self._failure: RequestFailed | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._live()), name=f"broker-{broker_id}", daemon=True
        )

    @property
    def epoch(self) -> int:
        return -1 if self._stub is None else self._stub.epoch

    def start(self) -> None:
        """Register, and return once the broker is unfenced."""
        self._thread.start()
        try:
            wait_for(f"broker {self.broker_id} to be unfenced", lambda: self.is_unfenced)
        except AssertionError as failure:
            raise AssertionError(f"{failure}; the last error: {self._failure}") from None

    def stop(self, unregister: bool = True) -> None:
        """Stop heartbeats and unregister the broker."""
        self._is_over.set()
        self._thread.join()
        if unregister:
            self._cluster.at_leader(self._unregister)

    def _unregister(self, leader: Wire) -> None:
        response = leader.request(
            unregister_broker.UnregisterBrokerRequest(broker_id=BrokerId(self.broker_id))
        )
        if response.error_code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
            raise Refused(str(response))
        # A leader that crashed may have committed an earlier attempt.
        assert response.error_code in (ErrorCode.NONE, ErrorCode.BROKER_ID_NOT_REGISTERED), response

    async def _live(self) -> None:
        cluster_id = await asyncio.to_thread(self._cluster.cluster_id)
        async with ClusterClient(self._cluster.addresses, timeout_ms=RESPONSE_TIMEOUT_MS) as client:
            self._stub = BrokerStub(
                self.broker_id, lambda request: client.send(request, "leader"), self._advertised, self._rack
            )
            while not self._is_over.is_set():
                try:
                    await self._beat(cluster_id)
                except RequestFailed as failure:
                    self._failure = failure
                await asyncio.sleep(HEARTBEAT_S)

    async def _beat(self, cluster_id: str) -> None:
        assert self._stub is not None
        if self._stub.epoch < 0:
            await self._stub.register(cluster_id)
        try:
            self.is_unfenced = not await self._stub.heartbeat()
        except RequestFailed as failure:
            if failure.error_code == ErrorCode.STALE_BROKER_EPOCH:
                self._stub.epoch = -1
            raise


def is_known(cluster: Cluster, ids: Sequence[int]) -> bool:
    """Whether Metadata of any node lists one of these brokers."""
    request = metadata.MetadataRequest(
        topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    for daemon in cluster:
        with daemon.connect() as wire:
            if any(broker.node_id in ids for broker in wire.request(request).brokers):
                return True
    return False


@contextmanager
def brokers(
    cluster: Cluster, ids: Sequence[int], racks: Sequence[str | None] = ()
) -> Iterator[list[BrokerStandIn]]:
    """Run unfenced brokers with these ids, each of which advertises the address of a node."""
    addresses = cluster.addresses
    stand_ins = [
        BrokerStandIn(
            broker_id,
            cluster,
            addresses[position % len(addresses)],
            racks[position] if position < len(racks) else None,
        )
        for position, broker_id in enumerate(ids)
    ]
    with ExitStack() as stack:
        stack.callback(
            wait_for, "every node to apply the unregistrations", lambda: not is_known(cluster, ids)
        )
        for stand_in in stand_ins:
            stand_in.start()
            stack.callback(stand_in.stop)
        yield stand_ins
