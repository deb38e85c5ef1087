"""Random changes of every kind of metadata, which an authenticated client requests from stock brokers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

from quorumd.client import access
from quorumd.client.admin import AdminClient, ElectionType, TopicPartition
from quorumd.client.security import CLIENT_SECURITY, ClientSecurity
from quorumd.errors import RequestFailed
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from quorumd.security.sasl.settings import ClientSasl
from tests.interop.stock_tools.stock_cluster import PASSWORD, USER, StockCluster

USERS = ("alice", "bob", "carol")
KEPT_USER = "operator"
"""A user that always has credentials: a stock node whose last credential of a mechanism is removed may lose another
credential that is set in the same batch of records (ScramDelta), which the audit reports as CRITICAL."""
TOPICS = 20
PARTITIONS = 12
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
TIMEOUT_MS = 20_000
START_TIMEOUT_MS = 300_000
"""The timeout of the first requests, while brokers may still be starting."""
_DAY_MS = 86_400_000

Change = Callable[[AdminClient], Awaitable[object]]


class Changes:
    """Makes random changes of a cluster, and counts the successful and failed changes by kind."""

    def __init__(self, cluster: StockCluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._brokers = [node.node_id for node in cluster.brokers]
        self._topics: dict[str, int] = {}
        self._tokens: list[bytes] = []
        self.made: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    @property
    def topic_count(self) -> int:
        """The number of topics that were created and have not been deleted."""
        return len(self._topics)

    def make(self, count: int, timeout_ms: float = TIMEOUT_MS) -> None:
        """Request changes one after the other, and count failures."""
        CLIENT_SECURITY.set(ClientSecurity(None, ClientSasl("PLAIN", USER, PASSWORD)))
        asyncio.run(self._make(count, timeout_ms))

    async def _make(self, count: int, timeout_ms: float) -> None:
        kinds: list[Change] = [
            *(self.create_topic, self.create_topic, self.delete_topic, self.add_partitions),
            *(self.configs_of_topic, self.configs_of_broker, self.configs_of_others),
            *(self.reassign, self.reassign, self.cancel, self.elect),
            *(self.add_acl, self.add_acl, self.remove_acls, self.set_password, self.remove_password),
            *(self.quota, self.quota, self.create_token, self.renew_token, self.expire_token),
        ]
        servers = [("127.0.0.1", node.sasl_port) for node in self._cluster.brokers if node.runs]
        async with AdminClient(servers, timeout_ms=timeout_ms) as admin:
            for change in self._random.choices(kinds, k=count):
                name = change.__name__
                try:
                    await change(admin)
                    self.made[name] += 1
                except RequestFailed:
                    self.failed[name] += 1

    def set_kept_passwords(self) -> None:
        """Set the credentials of KEPT_USER."""
        CLIENT_SECURITY.set(ClientSecurity(None, ClientSasl("PLAIN", USER, PASSWORD)))

        async def set_all() -> None:
            servers = [("127.0.0.1", node.sasl_port) for node in self._cluster.brokers]
            async with AdminClient(servers, timeout_ms=START_TIMEOUT_MS) as admin:
                for mechanism in MECHANISMS:
                    await access.set_password(admin, KEPT_USER, mechanism, "secret", 4096)

        asyncio.run(set_all())

    async def create_topic(self, admin: AdminClient) -> None:
        name = f"topic-{self._random.randrange(TOPICS)}"
        partitions = self._random.randint(1, PARTITIONS)
        await admin.create_topic(name, partitions, self._random.randint(1, min(3, len(self._brokers))))
        self._topics[name] = partitions

    async def delete_topic(self, admin: AdminClient) -> None:
        name = self._topic()
        await admin.delete_topic(name)
        self._topics.pop(name, None)

    async def add_partitions(self, admin: AdminClient) -> None:
        name = self._topic()
        total = self._topics.get(name, 1) + self._random.randint(1, 3)
        await admin.add_partitions(name, total)
        self._topics[name] = total

    async def configs_of_topic(self, admin: AdminClient) -> None:
        changes = {
            "retention.ms": str(self._random.randrange(1, _DAY_MS)),
            "min.insync.replicas": str(self._random.randint(1, 2)),
            "cleanup.policy": self._random.choice(["compact", "delete", "compact,delete", None]),
        }
        key = self._random.choice(list(changes))
        await admin.alter_configs(ConfigResourceType.TOPIC, self._topic(), {key: changes[key]})

    async def configs_of_broker(self, admin: AdminClient) -> None:
        name = self._random.choice(["", *map(str, self._brokers)])
        value = self._random.choice([None, "1", "2"])
        await admin.alter_configs(ConfigResourceType.BROKER, name, {"log.cleaner.threads": value})

    async def configs_of_others(self, admin: AdminClient) -> None:
        if self._random.random() < 0.5:
            sampled = {"interval.ms": str(self._random.randint(1, 9) * 1000), "metrics": "org.apache"}
            await admin.alter_configs(
                ConfigResourceType.CLIENT_METRICS, f"sampled-{self._random.randrange(3)}", sampled
            )
        else:
            timeout = {"consumer.session.timeout.ms": str(self._random.randint(45, 60) * 1000)}
            await admin.alter_configs(ConfigResourceType.GROUP, f"group-{self._random.randrange(3)}", timeout)

    async def reassign(self, admin: AdminClient) -> None:
        count = self._random.randint(1, len(self._brokers))
        await admin.alter_reassignments({self._partition(): self._random.sample(self._brokers, count)})

    async def cancel(self, admin: AdminClient) -> None:
        await admin.alter_reassignments({self._partition(): None})

    async def elect(self, admin: AdminClient) -> None:
        await admin.elect_leaders(ElectionType.PREFERRED, [self._partition()])

    async def add_acl(self, admin: AdminClient) -> None:
        pattern = self._random.choice([PatternType.LITERAL, PatternType.PREFIXED])
        host = self._random.choice(["*", "127.0.0.2"])
        permission = self._random.choice(list(Permission))
        operation = self._random.choice([Operation.READ, Operation.WRITE, Operation.ALL])
        acl = Acl(ResourceType.TOPIC, pattern, self._topic(), self._principal(), host, operation, permission)
        await access.add_acls(admin, [acl])

    async def remove_acls(self, admin: AdminClient) -> None:
        selected = AclFilter(principal=self._principal())
        await access.remove_acls(admin, selected)

    async def set_password(self, admin: AdminClient) -> None:
        mechanism = self._random.choice(MECHANISMS)
        await access.set_password(admin, self._random.choice(USERS), mechanism, "secret", 4096)

    async def remove_password(self, admin: AdminClient) -> None:
        await access.remove_password(admin, self._random.choice(USERS), self._random.choice(MECHANISMS))

    async def quota(self, admin: AdminClient) -> None:
        user = self._random.choice([*USERS, None])
        entity: dict[str, str | None] = self._random.choice(
            [{"user": user}, {"client-id": "app"}, {"user": user, "client-id": "app"}]
        )
        key = self._random.choice(["producer_byte_rate", "consumer_byte_rate", "request_percentage"])
        value = None if self._random.random() < 0.3 else float(self._random.randint(1, 10_000))
        await access.alter_quota(admin, entity, {key: value})

    async def create_token(self, admin: AdminClient) -> None:
        made = await access.create_delegation_token(admin, None, [self._principal()], _DAY_MS)
        self._tokens.append(made.hmac)

    async def renew_token(self, admin: AdminClient) -> None:
        if self._tokens:
            await access.renew_token(admin, self._random.choice(self._tokens), _DAY_MS)

    async def expire_token(self, admin: AdminClient) -> None:
        if self._tokens:
            token = self._tokens.pop(self._random.randrange(len(self._tokens)))
            await access.expire_token(admin, token, -1)

    def _topic(self) -> str:
        return self._random.choice(list(self._topics) or ["missing"])

    def _partition(self) -> TopicPartition:
        name = self._topic()
        return TopicPartition(name, self._random.randrange(self._topics.get(name, 1)))

    def _principal(self) -> str:
        return f"User:{self._random.choice(USERS)}"
