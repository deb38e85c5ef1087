"""A quorum with TLS, SASL and an authorizer, and stock brokers that use it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.request import urlopen

from tests.interop.stock_tools.kafka_brokers import KafkaBroker
from tests.interop.stock_tools.tools import StockTools
from tests.support.processes.daemons import QUICK, Daemon, run_quorumd
from tests.support.processes.ports import free_port
from tests.support.processes.secured import HOST, SecuredCluster
from tests.support.security.certificates import Certificates

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOKEN_KEY = "the-same-on-all-nodes-and-brokers"
NAME_OF_CERTIFICATE = r"RULE:^CN=([^,]+).*$/$1/"
MECHANISM = "SCRAM-SHA-512"
NODES = (1, 2, 3)
TLS_BROKER, SASL_BROKER = 101, 102
"""The first broker connects to the controllers with a certificate and is a super user; the second connects as a SCRAM
user, which is not a super user."""
SUPER_USERS = ";".join(
    f"User:{name}" for name in ("admin", "broker-101", *(f"node-{node}" for node in NODES))
)


def password(user: str) -> str:
    return f"{user}-secret"


def scram_login(user: str, secret: str, option: str = "") -> str:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return f'{module} required username="{user}" password="{secret}"{option};'


class SecureCluster(SecuredCluster):
    """Three nodes with two listeners each: CONTROLLER requires certificates, CONTROLLER_SASL requires SCRAM."""

    def __init__(self, directory: Path, release: str) -> None:
        super().__init__(directory, len(NODES), release=release)
        self.certificates = Certificates(directory / "certificates")
        self.sasl_ports = {node: free_port() for node in NODES}
        for daemon in self:
            self.certificates.issue(f"node-{daemon.node_id}")
            daemon.configure(f"{QUICK}{self._security(daemon)}")
        self.certificates.issue("admin")
        self.admin = self.certificates.client_file(
            "admin", "ssl.keystore.type=PEM\nssl.truststore.type=PEM\n"
        )

    def _security(self, daemon: Daemon) -> str:
        sasl = f"CONTROLLER_SASL://{HOST}:{self.sasl_ports[daemon.node_id]}"
        return (
            "controller.listener.names=CONTROLLER,CONTROLLER_SASL\n"
            f"listeners=CONTROLLER://{HOST}:{daemon.port},{sasl}\n"
            "listener.security.protocol.map=CONTROLLER:SSL,CONTROLLER_SASL:SASL_SSL\n"
            f"{self.certificates.properties(f'node-{daemon.node_id}')}"
            "ssl.client.auth=required\n"
            f"ssl.principal.mapping.rules={NAME_OF_CERTIFICATE}\n"
            f"listener.name.controller_sasl.sasl.enabled.mechanisms={MECHANISM}\n"
            f"authorizer.class.name={AUTHORIZER}\n"
            f"super.users={SUPER_USERS}\n"
            f"delegation.token.secret.key={TOKEN_KEY}\n"
        )

    @property
    def sasl_bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.sasl_ports.values())

    def quorumd(self, *arguments: str) -> str:
        """Run a command of quorumd as the administrator."""
        done = run_quorumd(*arguments, "--bootstrap-server", self.bootstrap, "--command-config", self.admin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def expiries(self) -> dict[int, float]:
        """Return the expiry of each node's certificate according to its metric, in seconds since the epoch."""
        name = 'quorumd_certificate_expiry_timestamp_seconds{listener="CONTROLLER"} '
        found = {}
        for daemon in self:
            with urlopen(f"http://{HOST}:{daemon.http_port}/metrics", timeout=30) as response:
                lines = response.read().decode().splitlines()
            (found[daemon.node_id],) = (
                float(line.removeprefix(name)) for line in lines if line.startswith(name)
            )
        return found

    def broker(
        self, tools: StockTools, broker_id: int, directory: Path, extra: Mapping[str, str]
    ) -> KafkaBroker:
        """Configure a stock broker, whose clients use SCRAM, and which replicates with certificates."""
        self.certificates.issue(f"broker-{broker_id}")
        replication = f"REPLICATION://{HOST}:{free_port()}"
        own = self.certificates.properties(f"broker-{broker_id}").splitlines()
        settings = {
            **dict(line.split("=", 1) for line in own),
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": NAME_OF_CERTIFICATE.replace("\\", "\\\\"),
            "inter.broker.listener.name": "REPLICATION",
            "sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.clients.{MECHANISM.lower()}.sasl.jaas.config": scram_login("unused", "unused"),
            "authorizer.class.name": AUTHORIZER,
            "super.users": SUPER_USERS,
            "delegation.token.secret.key": TOKEN_KEY,
            "offsets.topic.replication.factor": "2",
            **extra,
        }
        servers = self.sasl_bootstrap if broker_id == SASL_BROKER else self.bootstrap
        return KafkaBroker(
            tools,
            self.cluster_id(),
            f"controller.quorum.bootstrap.servers={servers}",
            broker_id,
            "a",
            directory / f"broker-{broker_id}",
            settings,
            f"CLIENTS://{{address}},{replication}",
        )

    def tls_broker(self, tools: StockTools, directory: Path) -> KafkaBroker:
        protocols = "CONTROLLER:SSL,CLIENTS:SASL_SSL,REPLICATION:SSL"
        return self.broker(tools, TLS_BROKER, directory, {"listener.security.protocol.map": protocols})

    def sasl_broker(self, tools: StockTools, directory: Path) -> KafkaBroker:
        login = scram_login("broker-102", password("broker-102"))
        return self.broker(
            tools,
            SASL_BROKER,
            directory,
            {
                "controller.listener.names": "CONTROLLER_SASL",
                "listener.security.protocol.map": "CONTROLLER_SASL:SASL_SSL,CLIENTS:SASL_SSL,REPLICATION:SSL",
                "sasl.mechanism.controller.protocol": MECHANISM,
                f"listener.name.controller_sasl.{MECHANISM.lower()}.sasl.jaas.config": login,
            },
        )

    def user_file(self, user: str, secret: str = "", option: str = "", name: str = "") -> Path:
        """Write the properties of a client that authenticates with SCRAM."""
        path = self.certificates.directory / f"user-{name or user}.properties"
        path.write_text(
            "security.protocol=SASL_SSL\n"
            f"sasl.mechanism={MECHANISM}\n"
            f"sasl.jaas.config={scram_login(user, secret or password(user), option)}\n"
            "ssl.truststore.type=PEM\n"
            f"ssl.truststore.location={self.certificates.trusted}\n"
        )
        return path


def certificate_of(cluster: SecureCluster, port: int) -> bytes:
    """Return the certificate that a TLS listener presents."""
    import socket

    context = ssl.create_default_context(cafile=str(cluster.certificates.trusted))
    context.load_cert_chain(cluster.certificates.directory / "admin.pem")
    with (
        socket.create_connection((HOST, port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as stream,
    ):
        return stream.getpeercert(binary_form=True) or b""
