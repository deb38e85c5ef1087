"""Real daemons under load, at which the attacks are directed, and the measurements of them."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from kio.schema.describe_quorum.v2 import request as describe_quorum

from quorumd.client.admin import AdminClient
from quorumd.ids import KafkaUuid
from quorumd.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from quorumd.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from tests.attacks.probe import Interval
from tests.attacks.target import HUGE_PARTITIONS, HUGE_TOPIC, Address, Peer, Target
from tests.support.processes.daemons import Cluster, Daemon, wait_for
from tests.support.processes.fake_broker import BrokerStandIn, brokers
from tests.support.processes.ports import free_port
from tests.support.security.certificates import Certificates

PROPERTIES = "quorum.fetch.timeout.ms=2000\nquorum.request.timeout.ms=2000\nquorum.election.timeout.ms=1000\n"
"""Kafka's default timeouts."""
SECURITY = """listener.security.protocol.map=CONTROLLER:PLAINTEXT,TLS:SSL,MAYBE:SSL,SASL:SASL_PLAINTEXT,BOTH:SASL_SSL
controller.listener.names=CONTROLLER,TLS,MAYBE,SASL,BOTH
listener.name.tls.ssl.client.auth=required
listener.name.maybe.ssl.client.auth=requested
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,OAUTHBEARER
sasl.oauthbearer.expected.audience=quorum
sasl.oauthbearer.expected.issuer=issuer
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  user_alice="secret" user_admin="secret";
listener.name.sasl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.both.sasl.enabled.mechanisms=SCRAM-SHA-256
listener.name.both.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin
delegation.token.secret.key=secret
"""
"""Four listeners with security; admin and the clients of the plaintext listener are super users."""
BROKERS = """process.roles=broker,controller
listener.security.protocol.map=CONTROLLER:PLAINTEXT,CLIENTS:PLAINTEXT,SASL:SASL_PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=CLIENTS
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  user_alice="secret";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
delegation.token.secret.key=secret
offsets.topic.replication.factor=1
offsets.topic.num.partitions=10
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=10
"""
"""A node that is a broker too, with a plaintext listener for clients and one with SASL."""
SIGNING_KEY_ID = "key-1"
SIGNING_KEYS = 1000
TOPIC = "orders"
BROKER = 101
DESCRIPTORS = (1024, 4096)
"""The usual soft and hard limits of open files of a service."""


def limit_descriptors() -> None:
    """Set the limits of open files in a child process."""
    resource.setrlimit(resource.RLIMIT_NOFILE, DESCRIPTORS)


class Field:
    """A running cluster with a probe that commits writes and a topic of 10,000 partitions."""

    def __init__(
        self,
        cluster: Cluster,
        stand_ins: list[BrokerStandIn],
        probe: ProbeProcess,
        secured: dict[str, list[Address]],
        certificates: str = "",
    ) -> None:
        self.cluster = cluster
        self.probe = probe
        self.stand_ins = stand_ins
        self.secured = secured
        self.certificates = certificates
        self.base_kib: dict[int, int] = {}
        self.measure_base()

    def measure_base(self) -> None:
        """Measure the growth of the memory from now on."""
        self.base_kib = {daemon.node_id: resident_kib(daemon) for daemon in self.cluster}

    def target(self, seconds: float) -> Target:
        """Return the current state of the quorum as an attacker sees it."""
        leader = self.cluster.leader()
        with leader.connect() as wire:
            voters, epoch, end = _described(wire)
        return Target(
            {daemon.node_id: daemon.address for daemon in self.cluster},
            [("127.0.0.1", daemon.http_port) for daemon in self.cluster],
            self.secured.get("CLIENTS", []),
            leader.node_id,
            epoch,
            self.cluster.cluster_id(),
            voters,
            end,
            seconds,
            self.secured.get("TLS", []),
            self.secured.get("BOTH", []),
            self.secured["SASL"],
            self.secured.get("MAYBE", []),
            self.certificates,
        )

    def mark(self) -> None:
        """Start the measurements of an attack."""
        for daemon in self.cluster:
            if daemon.runs:
                Path(f"/proc/{daemon.pid}/clear_refs").write_text("5")
        self.probe.mark(self.cluster)

    def peak_mib(self) -> int:
        """Return the largest growth of a node's peak memory since `measure_base`, in MiB."""
        grown = [peak_kib(daemon) - self.base_kib[daemon.node_id] for daemon in self.cluster if daemon.runs]
        return max(grown, default=0) // 1024


def _described(wire: Any) -> tuple[dict[int, KafkaUuid], int, int]:
    """Return the directory id of each voter, the epoch and the log end offset."""
    partition = describe_quorum.PartitionData(partition_index=0)
    topic = describe_quorum.TopicData(topic_name="__cluster_metadata", partitions=(partition,))
    response = wire.request(describe_quorum.DescribeQuorumRequest(topics=(topic,)))
    (described,) = response.topics[0].partitions
    voters = {
        int(each.replica_id): KafkaUuid(each.replica_directory_id.bytes) for each in described.current_voters
    }
    return voters, int(described.leader_epoch), max(each.log_end_offset for each in described.current_voters)


def resident_kib(daemon: Daemon) -> int:
    """Return the resident memory of a node in KiB."""
    return _status_kib(daemon, "VmRSS")


def peak_kib(daemon: Daemon) -> int:
    """Return the peak of the resident memory of a node since `Field.mark` in KiB."""
    return _status_kib(daemon, "VmHWM")


def _status_kib(daemon: Daemon, name: str) -> int:
    for line in Path(f"/proc/{daemon.pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise AssertionError(f"no {name} of process {daemon.pid}")


class ProbeProcess:
    """A child process that runs `tests.attacks.probe`."""

    def __init__(self, cluster: Cluster) -> None:
        addresses = [f"{host}:{port}" for host, port in cluster.addresses]
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.attacks.probe", *addresses],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def mark(self, cluster: Cluster) -> None:
        """Start an interval of measurements."""
        self._send(" ".join(["mark", *(str(each.pid if each.runs else 0) for each in cluster)]))

    def report(self) -> Interval:
        """Return the measurements since `mark`."""
        self._send("report")
        assert self._child.stdout is not None
        return Interval(**json.loads(self._child.stdout.readline()))

    def stop(self) -> None:
        self._child.communicate()

    def _send(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()


async def create_huge_topic(cluster: Cluster) -> None:
    """Create a topic with as many partitions as one request may create."""
    async with AdminClient(cluster.addresses) as admin:
        everywhere = {number: [BROKER] for number in range(HUGE_PARTITIONS)}
        await admin.create_topic(HUGE_TOPIC, assignments=everywhere)


def secure(cluster: Cluster, directory: Path) -> dict[str, list[Address]]:
    """Give every node two listeners with TLS, one with SASL and one with both, and return their addresses."""
    certificates = Certificates(directory / "certificates")
    certificates.authority.private_key_pem.write_to_path(certificates.directory / "ca-key.pem")
    certificates.issue("node")
    keys = [certificates.properties("node", f"listener.name.{name}.") for name in ("tls", "maybe", "both")]
    keys.append(f"sasl.oauthbearer.jwks.endpoint.url=file://{write_key_set(directory / 'keys.json')}\n")
    return add_listeners(cluster, ("TLS", "MAYBE", "SASL", "BOTH"), f"{SECURITY}{''.join(keys)}")


def write_key_set(path: Path) -> Path:
    """Write the keys of an identity provider that has as many as it may."""
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    public = jwt.algorithms.ECAlgorithm.to_jwk(key, as_dict=True)
    keys = [public | {"kid": f"key-{number}"} for number in range(SIGNING_KEYS)]
    path.write_text(json.dumps({"keys": keys}))
    return path


def add_listeners(cluster: Cluster, names: Iterable[str], properties: str) -> dict[str, list[Address]]:
    """Configure every node with further listeners, and return their addresses by name."""
    added: dict[str, list[Address]] = {name: [] for name in names}
    for daemon in cluster:
        listeners = [f"CONTROLLER://127.0.0.1:{daemon.port}"]
        for name, addresses in added.items():
            addresses.append(("127.0.0.1", free_port()))
            listeners.append(f"{name}://127.0.0.1:{addresses[-1][1]}")
        daemon.configure(f"listeners={','.join(listeners)}\n{PROPERTIES}{properties}")
    return added


@contextmanager
def field(directory: Path) -> Iterator[Field]:
    """Start three daemons with a topic of 10,000 partitions, and the probe; stop them at the end."""
    cluster = Cluster(directory)
    secured = secure(cluster, directory)
    with _started(cluster), brokers(cluster, [BROKER]) as stand_ins:
        asyncio.run(create_huge_topic(cluster))
        with _probed(cluster) as probe:
            yield Field(cluster, stand_ins, probe, secured, str(directory / "certificates"))


@contextmanager
def broker_field(directory: Path) -> Iterator[Field]:
    """Start a daemon that is a broker and the only controller, and the probe; stop them at the end."""
    cluster = Cluster(directory, 1)
    added = add_listeners(cluster, ("CLIENTS", "SASL"), BROKERS)
    with _started(cluster):
        asyncio.run(prepare_brokers(added["CLIENTS"]))
        with _probed(cluster) as probe:
            yield Field(cluster, [], probe, added)


@contextmanager
def _started(cluster: Cluster) -> Iterator[None]:
    """Start the daemons with the usual limits of open files, and stop them at the end."""
    try:
        for daemon in cluster:
            daemon.start(limits=limit_descriptors)
        cluster.leader()
        yield
    finally:
        cluster.stop()


@contextmanager
def _probed(cluster: Cluster) -> Iterator[ProbeProcess]:
    """Start the probe, and stop it at the end."""
    cluster.wait_until_level()
    probe = ProbeProcess(cluster)
    try:
        probe.mark(cluster)
        wait_for("the probe to commit", lambda: probe.report().commits > 100)
        yield probe
    finally:
        probe.stop()


async def prepare_brokers(addresses: list[Address]) -> None:
    """Create a topic, and the topics of the coordinators."""
    async with AdminClient(addresses) as admin:
        await admin.create_topic(TOPIC, 10, 1)
    for address in addresses:
        for key_type in (0, 1):
            wait_for("a coordinator", partial(_finds_coordinator, address, key_type))


def _finds_coordinator(address: Address, key_type: int) -> bool:
    with closing(Peer(address)) as peer:
        response = peer.request(FindCoordinatorRequest("any", key_type), 3)
        assert isinstance(response, FindCoordinatorResponse)
        return response.error_code == 0
