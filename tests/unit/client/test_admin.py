"""The admin client finds the leader, retries at other nodes, and respects its deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from quorumd.client import leader_discovery
from quorumd.client.admin import AdminClient
from quorumd.client.leader_discovery import NodeAddress
from quorumd.errors import ErrorCode, RequestFailed, UnsupportedVersion
from quorumd.ids import METADATA_TOPIC
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.config_resource_type import ConfigResourceType
from quorumd.protocol.connection import Request
from quorumd.protocol.messages.alter_quorum_request import AlterQuorumRequest
from quorumd.protocol.messages.describe_cluster_request import DescribeClusterRequest
from quorumd.protocol.messages.describe_cluster_response import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)
from quorumd.protocol.messages.describe_configs_request import DescribeConfigsRequest
from quorumd.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from quorumd.protocol.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from quorumd.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from quorumd.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from quorumd.protocol.messages.metadata_response import MetadataResponse, MetadataResponseBroker
from quorumd.protocol.wire import Message
from tests.support.client.fake_node import ALL_APIS, ByteServer, FakeNode

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("patient_time")]


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_discovery, "RETRY_BACKOFF_MS", 0)


class FakeQuorum:
    """Fake nodes with ids from 0; all know `leader`, and only the leader handles the leader's requests."""

    def __init__(self) -> None:
        self.nodes: list[FakeNode] = []
        self.leader = 0
        self.silent: set[int] = set()
        self.config_error = (0, "")
        self.brokers = [DescribeClusterBroker(7, "host-7", 9092)]

    def respond(self, node: int, request: Request) -> Message | None:
        if node in self.silent:
            return None
        addresses = [(number, *self.nodes[number].address) for number in range(len(self.nodes))]
        leads = node == self.leader
        if request.api_key == ApiKey.METADATA:
            brokers = [MetadataResponseBroker(*address) for address in addresses]
            return MetadataResponse(brokers=brokers, controller_id=self.leader)
        if request.api_key == ApiKey.DESCRIBE_CLUSTER:
            assert isinstance(request.message, DescribeClusterRequest)
            if request.message.endpoint_type == 1:
                if ApiKey.METADATA not in self.nodes[node].supported_versions:
                    return DescribeClusterResponse(0, ErrorCode.MISMATCHED_ENDPOINT_TYPE, "controllers only")
                return DescribeClusterResponse(
                    cluster_id="c", controller_id=self.leader, brokers=self.brokers
                )
            listed = [DescribeClusterBroker(*address) for address in addresses]
            return DescribeClusterResponse(
                endpoint_type=2, cluster_id="c", controller_id=self.leader, brokers=listed
            )
        if request.api_key == ApiKey.DESCRIBE_QUORUM:
            code = 0 if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER
            partition = PartitionData(0, code, None, self.leader, 7, high_watermark=42)
            return DescribeQuorumResponse(0, None, [TopicData(METADATA_TOPIC, [partition])])
        if request.api_key == ApiKey.DESCRIBE_CONFIGS:
            config = DescribeConfigsResourceResult("retention.ms", "1000")
            code, text = self.config_error
            return DescribeConfigsResponse(0, [DescribeConfigsResult(code, text, 2, "orders", [config])])
        if request.api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS:
            forwards = self.nodes[node].address in [(each.host, each.port) for each in self.brokers]
            code, text = self.config_error if leads or forwards else (ErrorCode.NOT_CONTROLLER, "not here")
            return IncrementalAlterConfigsResponse(0, [AlterConfigsResourceResponse(code, text, 2, "orders")])
        raise ConnectionError

    def request_counts(self, api_key: int) -> list[int]:
        """The number of requests of an API that each node received."""
        return [sum(request.api_key == api_key for request in node.requests) for node in self.nodes]


@asynccontextmanager
async def quorum(
    size: int = 3, supported_versions: dict[int, tuple[int, int]] | None = None
) -> AsyncIterator[FakeQuorum]:
    made = FakeQuorum()
    async with AsyncExitStack() as stack:
        for number in range(size):
            node = FakeNode(lambda request, number=number: made.respond(number, request), supported_versions)
            made.nodes.append(await stack.enter_async_context(node))
        yield made


def client(made: FakeQuorum, *bootstrap: int, **options: float) -> AdminClient:
    return AdminClient([made.nodes[number].address for number in bootstrap or (0,)], **options)


async def test_request_is_sent_to_current_leader() -> None:
    async with quorum() as made, client(made, 0) as admin:
        made.leader = 2
        partition = await admin.describe_quorum()
        assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (2, 7, 42)
        assert made.request_counts(ApiKey.DESCRIBE_QUORUM) == [0, 0, 1]
        assert await admin.find_leader() == NodeAddress(2, *made.nodes[2].address)


async def test_known_leader_and_connection_are_reused() -> None:
    async with quorum() as made, client(made, 0) as admin:
        made.leader = 1
        for _ in range(3):
            await admin.describe_quorum()
        assert made.request_counts(ApiKey.METADATA) == [1, 0, 0]
        assert [node.connections for node in made.nodes] == [1, 1, 0]


async def test_stock_controller_is_found_by_describe_cluster() -> None:
    stock = {key: versions for key, versions in ALL_APIS.items() if key != ApiKey.METADATA}
    async with quorum(supported_versions=stock) as made, client(made, 0) as admin:
        made.leader = 1
        assert await admin.find_leader() == NodeAddress(1, *made.nodes[1].address)
        assert made.nodes[0].requests[0].message.endpoint_type == 2  # type: ignore[attr-defined]  # its class


async def test_client_follows_leader_change() -> None:
    async with quorum() as made, client(made, 0) as admin:
        await admin.alter_configs(ConfigResourceType.TOPIC, "orders", {"a": "1"})
        made.leader = 2
        await admin.alter_configs(ConfigResourceType.TOPIC, "orders", {"a": "1"})
        assert made.request_counts(ApiKey.INCREMENTAL_ALTER_CONFIGS) == [2, 0, 1]
        assert (await admin.describe_quorum()).leader_id == 2


async def test_client_recovers_from_leader_crash() -> None:
    async with quorum() as made, client(made, 0, 1) as admin:
        await admin.describe_quorum()
        await made.nodes[0].stop()
        made.leader = 1
        assert (await admin.describe_quorum()).leader_id == 1


async def test_request_in_flight_is_retried_after_connection_loss() -> None:
    async with quorum() as made, client(made, 0, 1) as admin:
        script = made.nodes[0].script
        broken: list[Request] = []

        def break_once(request: Request) -> Message | None:
            if request.api_key == ApiKey.DESCRIBE_QUORUM and not broken:
                broken.append(request)
                raise ConnectionError
            return script(request)

        made.nodes[0].script = break_once
        assert (await admin.describe_quorum()).leader_id == 0
        assert len(broken) == 1
        assert made.nodes[0].connections == 2


async def test_unresponsive_node_is_replaced_by_another() -> None:
    async with quorum() as made, client(made, 0, 1, attempt_timeout_ms=50) as admin:
        made.silent.add(0)
        made.leader = 2
        assert (await admin.describe_quorum()).leader_id == 2
        assert made.request_counts(ApiKey.METADATA) == [1, 1, 0]


async def test_slow_connection_attempt_times_out() -> None:
    async with quorum(1) as made, client(made, 0, attempt_timeout_ms=50) as admin:
        script = made.nodes[0].script
        made.nodes[0].script = lambda request: None if len(made.nodes[0].requests) == 1 else script(request)
        assert (await admin.metadata()).controller_id == 0
        assert made.nodes[0].connections == 2


async def test_request_to_any_node_follows_not_leader_error() -> None:
    async with quorum() as made, client(made, 0) as admin:
        made.leader = 2
        response = await admin.send(IncrementalAlterConfigsRequest())
        assert isinstance(response, IncrementalAlterConfigsResponse)
        assert response.responses[0].error_code == 0
        assert made.request_counts(ApiKey.INCREMENTAL_ALTER_CONFIGS) == [1, 0, 1]


async def test_unreachable_bootstrap_addresses_are_skipped() -> None:
    async with quorum() as made:
        dead = [made.nodes[0].address, made.nodes[1].address]
        for node in made.nodes[:2]:
            await node.stop()
        made.leader = 2
        async with AdminClient([*dead, made.nodes[2].address]) as admin:
            assert (await admin.metadata()).controller_id == 2


async def test_request_fails_at_deadline_without_leader() -> None:
    async with quorum() as made, client(made, 0, timeout_ms=80) as admin:
        made.leader = -1
        with pytest.raises(
            RequestFailed,
            match=r"DescribeQuorumRequest .*0\.08 s.*leader .*unknown",
        ) as failed:
            await admin.describe_quorum()
        assert failed.value.error_code == ErrorCode.NOT_CONTROLLER
        with pytest.raises(
            RequestFailed,
            match=r"leader .*0\.08 s.*leader .*unknown",
        ):
            await admin.find_leader()


async def test_request_fails_at_deadline_without_response() -> None:
    async with quorum(1) as made:
        made.silent.add(0)
        async with client(made, 0, timeout_ms=60, attempt_timeout_ms=20) as admin:
            with pytest.raises(RequestFailed, match=r"MetadataRequest .*20 ms") as failed:
                await admin.metadata()
            assert failed.value.error_code == 0
    async with AdminClient([("127.0.0.1", 1)], timeout_ms=60) as admin:
        with pytest.raises(RequestFailed, match=r"ApiVersions .*0\.06 s.*cannot connect"):
            await admin.api_versions()


async def test_unresponsive_server_times_out() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with (
        ByteServer(talk) as server,
        AdminClient([server.address], timeout_ms=60, attempt_timeout_ms=20) as admin,
    ):
        with pytest.raises(RequestFailed, match=r"connection .*20 ms"):
            await admin.metadata()


async def test_response_of_node_given_by_id_is_unchanged() -> None:
    async with quorum() as made, client(made, 0) as admin:
        request = IncrementalAlterConfigsRequest()
        response = await admin.send(request, 1)
        assert isinstance(response, IncrementalAlterConfigsResponse)
        assert response.responses[0].error_code == ErrorCode.NOT_CONTROLLER
        assert made.request_counts(ApiKey.INCREMENTAL_ALTER_CONFIGS) == [0, 1, 0]
        assert await admin.api_versions(2) == ALL_APIS


async def test_unknown_node_id_is_reported() -> None:
    async with quorum() as made, client(made, 0, timeout_ms=60) as admin:
        with pytest.raises(RequestFailed, match=r"node 9 .*\[0, 1, 2\]"):
            await admin.metadata(9)


async def test_unsupported_request_fails_immediately() -> None:
    async with quorum(1, {18: (0, 4), 3: (0, 13)}) as made, client(made, 0) as admin:
        with pytest.raises(UnsupportedVersion, match="AlterQuorum"):
            await admin.send(AlterQuorumRequest())


async def test_request_unsupported_by_stock_leader_goes_to_other_node() -> None:
    stock = {key: versions for key, versions in ALL_APIS.items() if key != ApiKey.DESCRIBE_CONFIGS}
    async with quorum() as made, client(made, 1) as admin:
        made.nodes[0].supported_versions = stock
        await admin.send(DescribeConfigsRequest(), "leader")
        assert made.request_counts(ApiKey.DESCRIBE_CONFIGS) == [0, 1, 0]


def without(*keys: int) -> dict[int, tuple[int, int]]:
    """The APIs of a stock controller: all but these."""
    return {key: versions for key, versions in ALL_APIS.items() if key not in keys}


async def test_brokers_are_described_by_other_node_under_stock_leader() -> None:
    """A stock controller supports DescribeCluster, but rejects it for brokers with MISMATCHED_ENDPOINT_TYPE."""
    async with quorum() as made, client(made, 1) as admin:
        made.nodes[0].supported_versions = without(ApiKey.METADATA)
        cluster = await admin.describe_brokers()
        assert [broker.broker_id for broker in cluster.brokers] == [7]
        assert made.request_counts(ApiKey.DESCRIBE_CLUSTER) == [0, 1, 0]


async def test_stock_controllers_alone_cannot_describe_brokers() -> None:
    async with quorum(supported_versions=without(ApiKey.METADATA)) as made, client(made, 0) as admin:
        with pytest.raises(RequestFailed, match=r"--bootstrap-server"):
            await admin.describe_brokers()


async def test_stopped_node_is_skipped_under_stock_leader() -> None:
    stock = without(ApiKey.DESCRIBE_CONFIGS)
    async with quorum() as made, client(made, 1, 2, timeout_ms=2000) as admin:
        made.nodes[0].supported_versions = stock
        await admin.find_leader()
        await made.nodes[1].stop()
        await admin.send(DescribeConfigsRequest(), "leader")
        assert made.request_counts(ApiKey.DESCRIBE_CONFIGS) == [0, 0, 1]


@pytest.mark.parametrize("voters", [[0, 1], None], ids=["voters", "cancel"])
async def test_stock_leader_rejects_target_voters(voters: list[int] | None) -> None:
    """It has no AlterQuorum; another node would respond NOT_LEADER_OR_FOLLOWER until the deadline."""
    async with quorum() as made, client(made, 1) as admin:
        made.nodes[0].supported_versions = without(ApiKey.ALTER_QUORUM)
        with pytest.raises(
            RequestFailed,
            match=r"node 0, .*stock Kafka controller.*add-voter and remove-voter",
        ) as failed:
            await admin.alter_quorum(voters)
        assert failed.value.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert made.request_counts(ApiKey.ALTER_QUORUM) == [0, 0, 0]


async def test_configs_are_described_and_altered() -> None:
    async with quorum() as made, client(made, 0) as admin:
        (config,) = await admin.describe_configs(ConfigResourceType.TOPIC, "orders", ["retention.ms"])
        assert (config.name, config.value) == ("retention.ms", "1000")
        sent = made.nodes[0].requests[-1].message
        assert repr(sent).count("'retention.ms'") == 1
        await admin.describe_configs(ConfigResourceType.TOPIC, "orders")
        assert "configuration_keys=None" in repr(made.nodes[0].requests[-1].message)

        await admin.alter_configs(
            ConfigResourceType.TOPIC, "orders", {"a": "1", "b": None}, validate_only=True
        )
        altered = made.nodes[0].requests[-1].message
        assert isinstance(altered, IncrementalAlterConfigsRequest)
        assert altered.validate_only
        assert [(c.name, c.config_operation, c.value) for c in altered.resources[0].configs] == [
            ("a", 0, "1"),
            ("b", 1, None),
        ]


@pytest.mark.parametrize("name", ["8", ""])
async def test_configs_that_only_a_broker_can_check_are_sent_to_one(name: str) -> None:
    async with quorum() as made, client(made, 0) as admin:
        made.brokers = [
            DescribeClusterBroker(7, *made.nodes[1].address, is_fenced=True),
            DescribeClusterBroker(8, *made.nodes[2].address),
        ]
        await admin.alter_configs(ConfigResourceType.BROKER, name, {"a": "1"}, by_broker=True)
        assert made.request_counts(ApiKey.INCREMENTAL_ALTER_CONFIGS) == [0, 0, 1]


@pytest.mark.parametrize("name", ["7", "9"])
async def test_broker_that_checks_configs_must_run(name: str) -> None:
    async with quorum() as made, client(made, 0) as admin:
        made.brokers = [DescribeClusterBroker(7, *made.nodes[1].address, is_fenced=True)]
        with pytest.raises(RequestFailed, match=f"broker '{name}' is not running"):
            await admin.alter_configs(ConfigResourceType.BROKER, name, {"a": "1"}, by_broker=True)
        assert made.request_counts(ApiKey.INCREMENTAL_ALTER_CONFIGS) == [0, 0, 0]


async def test_config_error_is_reported_with_message() -> None:
    async with quorum() as made, client(made, 0) as admin:
        made.config_error = (ErrorCode.INVALID_CONFIG, "retention.ms must be a number")
        text = r"configs of topic 'orders': INVALID_CONFIG \(40\): retention.ms must be a number"
        with pytest.raises(RequestFailed, match=text) as failed:
            await admin.alter_configs(ConfigResourceType.TOPIC, "orders", {"retention.ms": "x"})
        assert failed.value.error_code == ErrorCode.INVALID_CONFIG
        with pytest.raises(RequestFailed, match=text):
            await admin.describe_configs(ConfigResourceType.TOPIC, "orders")
        with pytest.raises(RequestFailed, match="resource type 99 'x'"):
            await admin.describe_configs(99, "x")


async def test_cluster_and_metadata_are_described() -> None:
    async with quorum() as made, client(made, 0) as admin:
        assert (await admin.describe_cluster()).cluster_id == "c"
        assert [broker.node_id for broker in (await admin.metadata()).brokers] == [0, 1, 2]


async def test_concurrent_requests_share_one_connection() -> None:
    async with quorum() as made, client(made, 0) as admin:
        await asyncio.gather(*(admin.metadata() for _ in range(10)))
        assert made.nodes[0].connections == 1
        assert made.request_counts(ApiKey.METADATA) == [10, 0, 0]


async def test_empty_bootstrap_is_rejected() -> None:
    with pytest.raises(ValueError, match="bootstrap"):
        AdminClient([])
