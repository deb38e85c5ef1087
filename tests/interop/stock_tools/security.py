"""Stock brokers, tools and clients on a quorum with TLS, SASL and ACLs: only authorized clients are admitted.

A broker of Kafka 4.3.1 connects to the controllers with a certificate, and a broker of 4.4.0 with SASL_SSL. The tools
are of Kafka 4.3.1.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

from tests.interop.stock_tools.claims import ClaimBroken, Step, expect, shortened
from tests.interop.stock_tools.kafka_brokers import KafkaBroker
from tests.interop.stock_tools.secured import (
    MECHANISM,
    SASL_BROKER,
    TLS_BROKER,
    SecureCluster,
    certificate_of,
    password,
)
from tests.interop.stock_tools.tool_server import Done, ToolServer
from tests.interop.stock_tools.tools import CONFIGS, CONSUMER, PRODUCER, TOPICS, StockTools
from tests.interop.stock_tools.traffic import Traffic
from tests.support.processes.daemons import wait_for

ACLS = "org.apache.kafka.tools.AclCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
TOPIC, SECRET_TOPIC, METERED_TOPIC = "orders", "salaries", "metered"
PARTITIONS = 3
PATIENCE_S = 60.0
FIRST_USERS = ("admin", "broker-102")
USERS = ("alice", "mallory")


class Security:
    """Claims about a secured cluster; each step depends on earlier steps."""

    def __init__(
        self,
        tools: StockTools,
        newer: StockTools,
        cluster: SecureCluster,
        server: ToolServer,
        directory: Path,
    ) -> None:
        self._cluster = cluster
        self._server = server
        self._tools = tools
        self.brokers = {
            TLS_BROKER: cluster.tls_broker(tools, directory),
            SASL_BROKER: cluster.sasl_broker(newer, directory),
        }
        self._files = {user: cluster.user_file(user) for user in (*FIRST_USERS, *USERS)}
        self._token = Path()
        self._traffic = Traffic(tools, self._bootstrap, TOPIC, self._files["alice"])

    def steps(self) -> list[Step]:
        return [
            ("quorumd users creates SCRAM users at the controllers", self.found_users),
            ("a client without a certificate is rejected", self.refuse_strangers),
            ("a broker without CLUSTER_ACTION is rejected", self.refuse_a_broker),
            (
                "kafka-acls grants CLUSTER_ACTION, and the broker registers with SASL_SSL",
                self.admit_the_broker,
            ),
            ("a super user's broker registers with its certificate", self.start_the_other),
            ("kafka-configs creates SCRAM users at the brokers", self.create_users),
            ("kafka-topics creates topics as the administrator only", self.create_topics),
            ("console tools work for a user with ACLs", self.allowed),
            ("console tools are rejected for a user without ACLs", self.denied),
            ("kafka-acls lists and removes ACLs", self.list_acls),
            ("kafka-configs sets and describes quotas", self.quotas),
            ("the stock brokers enforce the quotas", self.enforced_quotas),
            ("kafka-delegation-tokens creates and describes a valid token", self.create_token),
            (
                "kafka-delegation-tokens renews and expires the token, which is then invalid",
                self.expire_token,
            ),
            ("a changed password takes effect at once", self.change_password),
            ("certificates rotate while traffic runs", self.rotate),
            ("every record is in the log once, also after a leader was killed", self.all_records),
        ]

    def stop(self) -> None:
        for broker in self.brokers.values():
            broker.stop()

    def found_users(self) -> str:
        """Create the users of a broker and the administrator; Kafka's tools cannot do it at controllers (KIP-919)."""
        for user in FIRST_USERS:
            self._cluster.quorumd("users", "add", user, "--password", password(user))
        rows = self._cluster.quorumd("users", "list").splitlines()[1:]
        expect("users", {row.split()[0] for row in rows}, set(FIRST_USERS))
        return ", ".join(FIRST_USERS)

    def create_users(self) -> str:
        for user in USERS:
            added = f"{MECHANISM}=[iterations=4096,password={password(user)}]"
            self._run(CONFIGS, "admin", "--alter", "--entity-type", "users", "--entity-name", user,
                      "--add-config", added)  # fmt: skip
        described = self._run(CONFIGS, "admin", "--describe", "--entity-type", "users").output
        found = set(re.findall(rf"user-principal '([^']+)' are {MECHANISM}=iterations=4096", described))
        expect("users", found, {*FIRST_USERS, *USERS})
        return ", ".join(USERS)

    def refuse_strangers(self) -> str:
        unknown = self._cluster.certificates.directory / "unknown.properties"
        unknown.write_text(
            "security.protocol=SSL\nssl.truststore.type=PEM\ndefault.api.timeout.ms=5000\n"
            f"request.timeout.ms=5000\nssl.truststore.location={self._cluster.certificates.trusted}\n"
        )
        done = self._server.run(
            ACLS, "--bootstrap-controller", self._cluster.bootstrap, "--command-config", unknown, "--list"
        )
        expect("exit code", done.code, 1)
        return _error(done, "SslAuthenticationException|SSL handshake failed|certificate_required")

    def refuse_a_broker(self) -> str:
        broker = self.brokers[SASL_BROKER]
        broker.start()

        def refusal() -> str:
            log = broker.output.read_text(errors="replace")
            found = re.search(r"CLUSTER_AUTHORIZATION_FAILED|ClusterAuthorizationException", log)
            return found[0] if found else ""

        seen = wait_for("the refusal in the broker's log", refusal, PATIENCE_S)
        expect("registered brokers", self._registered(), set())
        broker.stop()
        return seen

    def admit_the_broker(self) -> str:
        """Grant the rights of a broker, which creates internal topics in its own name, and start it."""
        rights = ("--cluster", "--operation", "Create")
        self._at_controllers(ACLS, *_grant("broker-102", "ClusterAction", *rights))
        self._start(SASL_BROKER)
        return f"broker {SASL_BROKER} of Kafka 4.4.0"

    def start_the_other(self) -> str:
        self._start(TLS_BROKER)
        return f"broker {TLS_BROKER} of Kafka {self._tools.version}"

    def create_topics(self) -> str:
        create = ("--create", "--partitions", str(PARTITIONS), "--replication-factor", "2")
        for topic in (TOPIC, SECRET_TOPIC):
            self._run(TOPICS, "admin", *create, "--topic", topic)
        done = self._as("alice", TOPICS, *create, "--topic", "mine")
        return _error(done, "TopicAuthorizationException|ClusterAuthorizationException")

    def allowed(self) -> str:
        for right in (("--producer",), ("--consumer", "--group", "*")):
            self._run(ACLS, "admin", "--add", "--allow-principal", "User:alice", *right, "--topic", TOPIC)
        with self._traffic.producing(200):
            pass
        return self._traffic.check()

    def denied(self) -> str:
        topics = self._run(TOPICS, "mallory", "--list").output.split()
        expect("topics that the user sees", topics, [])
        done = self._as("mallory", PRODUCER, "--topic", TOPIC, stdin="1\n")
        wrote = _error(done, "TopicAuthorizationException")
        done = self._as("mallory", CONSUMER, "--topic", TOPIC, "--from-beginning", "--timeout-ms", "20000")
        read = _error(done, "TopicAuthorizationException|GroupAuthorizationException")
        done = self._as("alice", CONSUMER, "--topic", SECRET_TOPIC, "--timeout-ms", "20000")
        _error(done, "TopicAuthorizationException")
        done = self._as("mallory", CONFIGS, "--alter", "--entity-type", "users", "--entity-name", "mallory",
                        "--add-config", f"{MECHANISM}=[password=other]")  # fmt: skip
        changed = _error(done, "ClusterAuthorizationException")
        return ", ".join(dict.fromkeys((wrote, read, changed)))

    def list_acls(self) -> str:
        before = self._acls()
        self._run(
            ACLS, "admin", *_grant("mallory", "Read", "--topic", SECRET_TOPIC, "--allow-host", "10.0.0.1")
        )
        wait_for("the new ACL", lambda: len(self._acls()) == len(before) + 1)
        self._run(ACLS, "admin", "--remove", "--force", "--allow-principal", "User:mallory", "--operation", "Read",
                  "--topic", SECRET_TOPIC, "--allow-host", "10.0.0.1")  # fmt: skip
        wait_for("its removal", lambda: self._acls() == before)
        at_controllers = self._at_controllers(ACLS, "--list").output
        expect("ACLs at the controllers", sorted(re.findall(r"\(principal=.*\)", at_controllers)), before)
        return f"{len(before)} ACLs"

    def quotas(self) -> str:
        entity = ("--entity-type", "users", "--entity-name", "alice")
        self._run(CONFIGS, "admin", "--alter", *entity, "--add-config",
                  "producer_byte_rate=20000,consumer_byte_rate=5000000")  # fmt: skip

        def described() -> bool:
            shown = self._run(CONFIGS, "admin", "--describe", *entity).output
            return "producer_byte_rate=20000.0" in shown and "consumer_byte_rate=5000000.0" in shown

        wait_for("the quotas", described)
        return self._cluster.quorumd("quotas", "list").splitlines()[-1]

    def enforced_quotas(self) -> str:
        """Write 500 kB, which is more than twice the quota of the window of 11 s."""
        self._run(TOPICS, "admin", "--create", "--topic", METERED_TOPIC, "--partitions", "1")
        self._run(
            ACLS, "admin", "--add", "--allow-principal", "User:alice", "--producer", "--topic", METERED_TOPIC
        )
        measured = self._as("alice", PERFORMANCE, "--topic", METERED_TOPIC, "--num-records", "100",
                            "--record-size", "5000", "--throughput", "-1", "--print-metrics")  # fmt: skip
        found = re.search(r"produce-throttle-time-max:\S+\s+: ([\d.]+)", measured.text)
        if not found or float(found[1]) <= 0:
            raise ClaimBroken(_complaint(measured))
        return f"produce-throttle-time-max {found[1]} ms"

    def create_token(self) -> str:
        created = self._run(TOKENS, "alice", "--create", "--max-life-time-period", "-1",
                            "--renewer-principal", "User:admin").output  # fmt: skip
        row = created.strip().splitlines()[-1].split()
        self._token_id, self._hmac = row[0], row[1]
        owner = ("--owner-principal", "User:alice")
        wait_for(
            "the token",
            lambda: self._token_id in self._run(TOKENS, "admin", "--describe", *owner).output,
            PATIENCE_S,
        )
        self._token = self._cluster.user_file(self._token_id, self._hmac, ' tokenauth="true"', "token")
        wait_for("the token to work", lambda: TOPIC in self._with_token().output.split())
        return self._cluster.quorumd("tokens", "list").splitlines()[-1].split()[1]

    def expire_token(self) -> str:
        renewed = self._run(TOKENS, "admin", "--renew", "--renew-time-period", "-1", "--hmac", self._hmac)
        expect("renewal", "Completed renew operation" in renewed.output, True)
        self._run(TOKENS, "admin", "--expire", "--expiry-time-period", "-1", "--hmac", self._hmac)
        return wait_for(
            "the token to be rejected", lambda: _found(self._with_token(), "SaslAuthenticationException")
        )

    def change_password(self) -> str:
        entity = ("--entity-type", "users", "--entity-name", "mallory")
        self._run(CONFIGS, "admin", "--alter", *entity, "--add-config", f"{MECHANISM}=[password=another]")
        return wait_for(
            "the old password to be rejected",
            lambda: _found(self._as("mallory", TOPICS, "--list"), "SaslAuthenticationException"),
        )

    def rotate(self) -> str:
        """Replace the certificates of all nodes and brokers, and kill the leader, while records are produced."""
        cluster = self._cluster
        ports = {f"node-{daemon.node_id}": daemon.port for daemon in cluster}
        before = {name: certificate_of(cluster, port) for name, port in ports.items()}
        with self._traffic.producing():
            for name in ports:
                cluster.certificates.issue(name)
            for daemon in cluster:
                daemon.signal(signal.SIGHUP)
            for name, port in ports.items():
                wait_for(f"{name} to present its new certificate", self._is_new(port, before[name]))
            for number, broker in self.brokers.items():
                self._rotate_broker(number, broker)
            leader = cluster.leader()
            leader.kill()
            other = cluster.leader(besides=leader.node_id)
            self._run(TOPICS, "admin", "--create", "--topic", "after", "--partitions", "1")
            leader.start()
        return f"{len(ports)} nodes, {len(self.brokers)} brokers; node {leader.node_id} killed, {other.node_id} led"

    def all_records(self) -> str:
        return self._traffic.check("consumer")

    @property
    def _bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    def _is_new(self, port: int, before: bytes) -> Callable[[], bool]:
        return lambda: certificate_of(self._cluster, port) not in (b"", before)

    def _rotate_broker(self, broker_id: int, broker: KafkaBroker) -> None:
        """Replace the certificate of a broker by a dynamic config of its listener for clients."""
        before = certificate_of(self._cluster, broker.port)
        path = self._cluster.certificates.issue(f"broker-{broker_id}")
        self._run(CONFIGS, "admin", "--alter", "--entity-type", "brokers", "--entity-name", str(broker_id),
                  "--add-config", f"listener.name.clients.ssl.keystore.location={path}")  # fmt: skip
        wait_for(f"broker {broker_id} to present its new certificate", self._is_new(broker.port, before))

    def _start(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        broker.start()

        def registered() -> bool:
            expect(f"broker {broker_id} runs: {_end_of(broker)}", broker.runs, True)
            return broker_id in self._registered()

        wait_for(f"broker {broker_id} to be unfenced", registered, 120.0)

    def _registered(self) -> set[int]:
        """Return the ids of the brokers that are running."""
        rows = [line.split() for line in self._cluster.quorumd("brokers", "list").splitlines()[1:]]
        return {int(row[0]) for row in rows if len(row) > 1 and row[1] == "running"}

    def _acls(self) -> list[str]:
        return sorted(re.findall(r"\(principal=.*\)", self._run(ACLS, "admin", "--list").output))

    def _with_token(self) -> Done:
        return self._server.run(
            TOPICS, "--bootstrap-server", self._bootstrap, "--command-config", self._token, "--list"
        )

    def _at_controllers(self, tool: str, *arguments: str) -> Done:
        place = ("--bootstrap-controller", self._cluster.bootstrap, "--command-config", self._cluster.admin)
        return _succeeded(self._server.run(tool, *place, *arguments))

    def _as(self, user: str, tool: str, *arguments: str, stdin: str = "") -> Done:
        place = ("--bootstrap-server", self._bootstrap, "--command-config", self._files[user])
        return self._server.run(tool, *place, *arguments, stdin=stdin)

    def _run(self, tool: str, user: str, *arguments: str) -> Done:
        return _succeeded(self._as(user, tool, *arguments))


def _grant(user: str, operation: str, *resource: str) -> tuple[str, ...]:
    return ("--add", "--allow-principal", f"User:{user}", "--operation", operation, *resource)


def _succeeded(done: Done) -> Done:
    if done.code:
        raise ClaimBroken(_complaint(done))
    return done


def _found(done: Done, pattern: str) -> str:
    found = re.search(pattern, done.text)
    return found[0] if found else ""


def _error(done: Done, pattern: str) -> str:
    """Return the expected error in the output of a tool. Raises ClaimBroken."""
    found = _found(done, pattern)
    if not found:
        raise ClaimBroken(f"exit code {done.code} without {pattern}: {_complaint(done)}")
    return found


def _complaint(done: Done) -> str:
    """Return the exceptions that a tool printed, or all of its output if it printed none."""
    exceptions = re.findall(r"^.*?(\w+(?:Exception|Error): .*)$", done.text, re.M)
    return shortened("; ".join(dict.fromkeys(exceptions)) or done.text.strip())


def _end_of(broker: KafkaBroker) -> str:
    return shortened(" ".join(broker.output.read_text(errors="replace").splitlines()[-3:]))
