"""A broker stand-in that registers and sends heartbeats, and has no data.

It advertises the address of a node of the quorum, so that clients of that broker reach a server.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from kio.schema.broker_heartbeat.v1 import request as broker_heartbeat
from kio.schema.broker_registration.v4 import request as broker_registration
from kio.schema.metadata.v12 import request as metadata
from kio.schema.types import BrokerId
from kio.schema.unregister_broker.v0 import request as unregister_broker
from kio.static.primitive import i16, i64, u16

from quorumd.controller.metadata_versions import SUPPORTED_FEATURES
from tests.support.processes.daemons import Cluster, wait_for
from tests.support.processes.wire import Wire

Address = tuple[str, int]

HEARTBEAT_S = 0.2
RESPONSE_TIMEOUT_S = 5.0
STALE_BROKER_EPOCH = 77
FEATURES = SUPPORTED_FEATURES


class BrokerStandIn:
    """One broker, from `start` to `stop`. A thread follows the leader of the quorum."""

    def __init__(
        self, broker_id: int, cluster: Cluster, advertised: Address, rack: str | None = None
    ) -> None:
        self.broker_id = broker_id
        self.epoch = -1
        self.is_unfenced = False
        self.refusal: object = None
        self._cluster = cluster
        self._advertised = advertised
        self._rack = rack
        self._incarnation = uuid.uuid4()
        self._directory = uuid.uuid4()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._live, name=f"broker-{broker_id}", daemon=True)

    def start(self) -> None:
        """Register, and return once the broker is unfenced."""
        self._thread.start()
        try:
            wait_for(f"broker {self.broker_id} to be unfenced", lambda: self.is_unfenced)
        except AssertionError as failure:
            raise AssertionError(f"{failure}; the last registration was rejected: {self.refusal}") from None

    def stop(self, unregister: bool = True) -> None:
        """Stop heartbeats and unregister the broker."""
        self._is_over.set()
        self._thread.join()
        if unregister:
            request = unregister_broker.UnregisterBrokerRequest(broker_id=BrokerId(self.broker_id))
            with self._cluster.leader().connect() as wire:
                response = wire.request(request)
            assert response.error_code == 0, response

    def _live(self) -> None:
        addresses = self._cluster.addresses
        turn = 0
        while not self._is_over.is_set():
            try:
                with Wire(addresses[turn % len(addresses)], RESPONSE_TIMEOUT_S) as wire:
                    self._talk(wire)
            except (OSError, ValueError):
                # The node is down, or the cluster has no id yet.
                pass
            turn += 1
            self._is_over.wait(HEARTBEAT_S / 4)

    def _talk(self, wire: Wire) -> None:
        """Register and send heartbeats until the node responds with an error."""
        if self.epoch < 0:
            registered = wire.request(self._registration())
            if registered.error_code != 0:
                self.refusal = registered
                return
            self.epoch = int(registered.broker_epoch)
        while not self._is_over.is_set():
            response = wire.request(self._heartbeat())
            if response.error_code == STALE_BROKER_EPOCH:
                self.epoch = -1
            if response.error_code != 0:
                return
            self.is_unfenced = not response.is_fenced
            self._is_over.wait(HEARTBEAT_S)

    def _registration(self) -> broker_registration.BrokerRegistrationRequest:
        host, port = self._advertised
        return broker_registration.BrokerRegistrationRequest(
            broker_id=BrokerId(self.broker_id),
            cluster_id=self._cluster.cluster_id(),
            incarnation_id=self._incarnation,
            listeners=(
                broker_registration.Listener(
                    name="PLAINTEXT", host=host, port=u16(port), security_protocol=i16(0)
                ),
            ),
            features=tuple(
                broker_registration.Feature(
                    name=name, min_supported_version=i16(least), max_supported_version=i16(most)
                )
                for name, least, most in FEATURES
            ),
            rack=self._rack,
            log_dirs=(self._directory,),
        )

    def _heartbeat(self) -> broker_heartbeat.BrokerHeartbeatRequest:
        """A heartbeat of a broker that has replicated the whole metadata log."""
        return broker_heartbeat.BrokerHeartbeatRequest(
            broker_id=BrokerId(self.broker_id),
            broker_epoch=i64(self.epoch),
            current_metadata_offset=i64(2**62),
            want_fence=False,
            want_shut_down=False,
        )


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
    """Unfenced brokers with these ids; each advertises the address of a node."""
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
