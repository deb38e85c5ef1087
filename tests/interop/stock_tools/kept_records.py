"""Create tests/support/data/kafka_4.3.1_records.zip: a stock controller's log with every record type it can write.

    python -m tests.interop.stock_tools.kept_records

A stock node, which is both broker and controller, is formatted with a SCRAM credential. ACLs, quotas, credentials,
delegation tokens, configs and topics are created, and some of them are removed. The node is restarted once, so that
its controller and broker register again, and writes snapshots.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import click

from tests.interop.stock_tools.claims import ClaimBroken
from tests.interop.stock_tools.kafka_process import HEAP
from tests.interop.stock_tools.tools import (
    CONFIGS,
    KAFKA,
    STORAGE,
    TOPICS,
    StockTools,
    ToolsMissing,
    stock_tools,
)
from tests.support.processes.ports import free_port

JARS = Path("build/stock-tools")
DATA = Path(__file__).resolve().parents[2] / "support" / "data"
PARTITION = "__cluster_metadata-0"
CLUSTER_ID = "bWFkZSBmb3IgdGVzdHMhIQ"
ACLS = "org.apache.kafka.tools.AclCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
SNAPSHOT_EVERY_MS = 5000
SNAPSHOTS = 3
"""The number of newest snapshots in the archive."""
PATIENCE_S = 120.0
SAMPLE_INTERVAL_S = 0.5
_JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="admin-secret" '
    'user_admin="admin-secret" user_alice="alice-secret";'
)


class StockNode:
    """A stock node that is both broker and controller: its directory and, while it runs, its process."""

    def __init__(self, tools: StockTools, directory: Path) -> None:
        self._tools = tools
        self._directory = directory
        self.data = directory / "data" / PARTITION
        self._config = directory / "server.properties"
        self._port, controller = free_port(), free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "broker.rack": "r1",
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"SASL_PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": _JAAS,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
            "delegation.token.secret.key": "a secret of tests",
            "log.dirs": f"{directory / 'data'},{directory / 'more'}",
            "metadata.log.dir": str(directory / "data"),
            "metadata.log.max.snapshot.interval.ms": str(SNAPSHOT_EVERY_MS),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        }
        self._config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._client = directory / "client.properties"
        login = _JAAS.partition(" user_admin")[0] + ";"
        self._client.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n"
        )
        self._child: subprocess.Popen[bytes] | None = None

    def format(self) -> None:
        self._tools.run(
            STORAGE, "format", "--config", self._config, "--cluster-id", CLUSTER_ID, "--standalone",
            "--add-scram", "SCRAM-SHA-256=[name=formatted,password=secret]",
        )  # fmt: skip

    def start(self) -> None:
        with (self._directory / "node.log").open("ab") as output:
            command = self._tools.command(KAFKA, self._config, java=HEAP)
            self._child = subprocess.Popen(command, stdout=output, stderr=output)

    def stop(self) -> None:
        """Stop the process if it runs."""
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            self._child.wait(PATIENCE_S)

    def run(self, tool: str, *arguments: str) -> str:
        """Run a tool as the administrator and return its output. Raises ClaimBroken."""
        done = self._tools.execute(
            tool,
            "--bootstrap-server",
            f"127.0.0.1:{self._port}",
            "--command-config",
            self._client,
            *arguments,
        )
        if done.returncode:
            raise ClaimBroken(f"{tool} {' '.join(arguments)}: {done.stderr or done.stdout}")
        return done.stdout

    def wait_until_it_responds(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.run(TOPICS, "--list")
                return
            except ClaimBroken:
                if time.monotonic() > deadline:
                    raise
                time.sleep(SAMPLE_INTERVAL_S)

    def wait_for_a_snapshot(self) -> None:
        """Wait until the node has written another snapshot."""
        before = self.snapshots()
        deadline = time.monotonic() + PATIENCE_S
        while self.snapshots() <= before:
            if time.monotonic() > deadline:
                raise ClaimBroken("no snapshot was written")
            time.sleep(SAMPLE_INTERVAL_S)

    def snapshots(self) -> list[Path]:
        return sorted(self.data.glob("*.checkpoint"))


def write_records(node: StockNode) -> None:
    """Create items of every kind, and remove or change some of them."""
    for topic in ("orders", "gone", "audit"):
        node.run(TOPICS, "--create", "--topic", topic, "--partitions", "3", "--replication-factor", "1")
    node.run(TOPICS, "--delete", "--topic", "gone")
    for principal in ("alice", "bob", "carol"):
        node.run(ACLS, "--add", "--allow-principal", f"User:{principal}", "--producer", "--topic", "orders")
    node.run(ACLS, "--add", "--deny-principal", "User:mallory", "--operation", "All", "--topic", "a",
             "--resource-pattern-type", "prefixed", "--deny-host", "127.0.0.2")  # fmt: skip
    node.run(ACLS, "--remove", "--force", "--allow-principal", "User:bob", "--producer", "--topic", "orders")
    alter = ("--alter", "--add-config")
    for credential in ("SCRAM-SHA-256=[password=one]", "SCRAM-SHA-512=[password=two]"):
        node.run(CONFIGS, *alter, credential, "--entity-type", "users", "--entity-name", "alice")
    node.run(CONFIGS, *alter, "SCRAM-SHA-512=[iterations=8192,password=three]", "--entity-type", "users",
             "--entity-name", "bob")  # fmt: skip
    node.run(
        CONFIGS,
        "--alter",
        "--delete-config",
        "SCRAM-SHA-256",
        "--entity-type",
        "users",
        "--entity-name",
        "alice",
    )
    quotas = "producer_byte_rate=1024,request_percentage=12.3456789"
    node.run(CONFIGS, *alter, quotas, "--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients",
             "--entity-name", "app")  # fmt: skip
    node.run(CONFIGS, *alter, quotas, "--entity-type", "users", "--entity-default")
    node.run(
        CONFIGS, *alter, "connection_creation_rate=7", "--entity-type", "ips", "--entity-name", "127.0.0.3"
    )
    node.run(
        CONFIGS,
        "--alter",
        "--delete-config",
        "request_percentage",
        "--entity-type",
        "users",
        "--entity-default",
    )
    node.run(CONFIGS, *alter, "retention.ms=1000,cleanup.policy=[compact,delete]", "--entity-type", "topics",
             "--entity-name", "orders")  # fmt: skip
    node.run(CONFIGS, *alter, "log.cleaner.threads=2", "--entity-type", "brokers", "--entity-default")
    node.run(CONFIGS, *alter, "interval.ms=1000,metrics=[org.apache]", "--entity-type", "client-metrics",
             "--entity-name", "sampled")  # fmt: skip
    _write_tokens(node)


def _write_tokens(node: StockNode) -> None:
    """Create delegation tokens, and expire one of them."""
    for renewer in ("alice", "bob"):
        node.run(TOKENS, "--create", "--max-life-time-period", "-1", "--renewer-principal", f"User:{renewer}")
    made = node.run(TOKENS, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:carol")
    hmac = made.splitlines()[-1].split()[1]
    node.run(TOKENS, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)


def cordon(node: StockNode, directory: Path) -> None:
    """Cordon one of the node's log directories (KIP-1066)."""
    node.run(
        CONFIGS, "--alter", "--add-config", f"cordoned.log.dirs={directory / 'more'}", "--entity-type", "brokers",
        "--entity-name", "1",
    )  # fmt: skip


@click.command()
@click.option("--kafka", default="4.3.1", show_default=True, help="Version of the node and the tools.")
@click.option(
    "--jars",
    default=JARS,
    show_default=True,
    type=click.Path(path_type=Path),
    help="Directory of Kafka's jars.",
)
def main(kafka: str, jars: Path) -> None:
    """Create the archive."""
    try:
        tools = stock_tools(jars, kafka, kafka)
    except ToolsMissing as missing:
        sys.exit(str(missing))
    with tempfile.TemporaryDirectory(prefix="quorumd-kept-records-") as name:
        directory = Path(name)
        node = StockNode(tools, directory)
        node.format()
        try:
            node.start()
            node.wait_until_it_responds()
            write_records(node)
            cordon(node, directory)
            node.stop()
            node.start()
            node.wait_until_it_responds()
            node.wait_for_a_snapshot()
        finally:
            node.stop()
        target = DATA / f"kafka_{kafka}_records.zip"
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in (*sorted(node.data.glob("*.log")), *node.snapshots()[-SNAPSHOTS:]):
                archive.write(path, f"1/{PARTITION}/{path.name}")
            archive.write(directory / "data" / "meta.properties", "1/meta.properties")
    click.echo(f"{target}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
