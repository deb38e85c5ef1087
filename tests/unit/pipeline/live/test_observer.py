"""The observer against scripted nodes; tests/shell runs it against real ones."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from quorumd.errors import ErrorCode, InputIncomplete, RequestFailed
from quorumd.ids import METADATA_TOPIC, OffsetAndEpoch
from quorumd.pipeline.live import observer as real_observer
from quorumd.pipeline.live.observer import OBSERVER_ID, Observer
from quorumd.pipeline.source.followed import Reached
from quorumd.pipeline.source.options import parse_options
from quorumd.pipeline.source.reader import LiveTask
from quorumd.pipeline.source.stream import LiveLog
from quorumd.protocol.apis import ApiKey
from quorumd.protocol.connection import Request
from quorumd.protocol.messages import describe_quorum_response as describe
from quorumd.protocol.messages import fetch_response as fetch
from quorumd.protocol.messages import fetch_snapshot_response as snapshot
from quorumd.protocol.messages.describe_cluster_response import DescribeClusterResponse
from quorumd.protocol.record_batch import encode_batch
from quorumd.protocol.wire import Message
from tests.support.client.fake_node import ALL_APIS, FakeNode
from tests.support.text import shows

T = TypeVar("T")
BATCHES = [encode_batch(offset, 4, 1_000, [b"x"] * 3) for offset in (0, 3, 6)]
DATA = b"".join(BATCHES)


def fetched(
    data: bytes = b"",
    error: int = 0,
    *,
    hw: int = 9,
    leader: tuple[int, int] = (1, 4),
    at: tuple[str, int] | None = None,
    snapshot_end: int = -1,
    log_start: int = 0,
) -> fetch.FetchResponse:
    partition = fetch.PartitionData(
        0, error, hw, -1, log_start, None, fetch.LeaderIdAndEpoch(*leader), records=data
    )
    if snapshot_end >= 0:
        partition.snapshot_id = fetch.SnapshotId(snapshot_end, 4)
    endpoints = [fetch.NodeEndpoint(leader[0], *at)] if at else []
    topics = [fetch.FetchableTopicResponse(METADATA_TOPIC, partitions=[partition])]
    return fetch.FetchResponse(responses=topics, node_endpoints=endpoints)


def described(
    hw: int, error: int = 0, *, voters: Sequence[tuple[str, int]] = ()
) -> describe.DescribeQuorumResponse:
    partition = describe.PartitionData(
        0, error, None, 1, 4, hw, [describe.ReplicaState(1, log_end_offset=12)]
    )
    nodes = [
        describe.Node(number, [describe.Listener("CONTROLLER", *at)]) for number, at in enumerate(voters)
    ]
    return describe.DescribeQuorumResponse(0, None, [describe.TopicData(METADATA_TOPIC, [partition])], nodes)


def piece(data: bytes, position: int, size: int, error: int = 0) -> snapshot.FetchSnapshotResponse:
    partition = snapshot.PartitionSnapshot(
        0, error, snapshot.SnapshotId(9, 4), snapshot.LeaderIdAndEpoch(1, 4), size, position, data
    )
    return snapshot.FetchSnapshotResponse(topics=[snapshot.TopicSnapshot(METADATA_TOPIC, [partition])])


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only waits advance the clock, by two minutes each."""
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        assert seconds > 0
        now_s += 120

    monkeypatch.setattr(real_observer, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=sleep))


def query(
    node: FakeNode, call: Callable[[Observer], T], *others: tuple[str, int], **options: Any
) -> Callable[[], T]:
    def run() -> T:
        with Observer([node.address, *others], **{"timeout_s": 300, **options}) as observer:
            return call(observer)

    return run


def partition_of(request: Request) -> Any:
    message: Any = request.message
    return message.topics[0].partitions[0]


def script(
    replies: dict[int, list[Message]], seen: list[Any] | None = None
) -> Callable[[Request], Message | None]:
    """The next response of each API; the last one is repeated."""

    def response(request: Request) -> Message:
        if seen is not None:
            seen.append(request.message)
        left = replies[request.api_key]
        return left.pop(0) if len(left) > 1 else left[0]

    return response


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("data", "high_watermark", "committed_only", "batches"),
    [
        pytest.param(DATA, 9, True, 3, id="all"),
        pytest.param(DATA, 8, True, 2, id="uncommitted"),
        pytest.param(DATA, 8, False, 3, id="uncommitted-wanted"),
        pytest.param(DATA[:-1], 9, True, 2, id="cut-off"),
        pytest.param(DATA[:30], 9, True, 0, id="no-whole-batch"),
    ],
)
async def test_only_whole_committed_batches_are_returned(
    data: bytes, high_watermark: int, committed_only: bool, batches: int
) -> None:
    async with FakeNode(script({ApiKey.FETCH: [fetched(data, hw=high_watermark)]})) as node:
        run = query(node, lambda observer: observer.fetch(0), committed_only=committed_only)
        got = await asyncio.to_thread(run)
    assert (got.data, got.end_offset) == (b"".join(BATCHES[:batches]), 3 * batches)


@pytest.mark.asyncio
async def test_malformed_batches_are_fetched_again() -> None:
    async with FakeNode(script({ApiKey.FETCH: [fetched(bytes(100)), fetched(DATA)]})) as node:
        got = await asyncio.to_thread(query(node, lambda observer: observer.fetch(0)))
    assert got.data == DATA


@pytest.mark.asyncio
async def test_fetch_uses_consumer_id_and_leader_epoch() -> None:
    seen: list[Any] = []
    fenced = fetched(error=ErrorCode.FENCED_LEADER_EPOCH)
    async with FakeNode(script({ApiKey.FETCH: [fenced, fetched(DATA, hw=6)]}, seen)) as node:
        got = await asyncio.to_thread(query(node, lambda observer: observer.fetch(3)))
    assert (got.data, got.end_offset, got.high_watermark, got.node) == (BATCHES[0] + BATCHES[1], 6, 6, 1)
    first, second = seen
    assert second.replica_state.replica_id == -1
    assert [
        p.current_leader_epoch for p in (first.topics[0].partitions[0], second.topics[0].partitions[0])
    ] == [0, 4]
    assert second.topics[0].partitions[0].last_fetched_epoch == 4, "or a stock leader says that it diverged"


@pytest.mark.asyncio
async def test_leader_is_found_and_uses_supported_version() -> None:
    old = ALL_APIS | {ApiKey.FETCH: (12, 12)}
    async with FakeNode(script({ApiKey.FETCH: [fetched(DATA)]}), old) as leader:
        moved = fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, at=leader.address)
        async with FakeNode(script({ApiKey.FETCH: [moved]})) as follower:
            got = await asyncio.to_thread(query(follower, lambda observer: observer.fetch(0)))
        assert got.data == DATA
        assert leader.requests[-1].api_version == 12


@pytest.mark.asyncio
async def test_unreachable_node_is_skipped_and_leaderless_one_retried() -> None:
    async with FakeNode(script({ApiKey.FETCH: [fetched(DATA)]})) as gone:
        pass
    electing = fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(-1, 5))
    unknown = fetched(DATA, hw=-1)
    async with FakeNode(script({ApiKey.FETCH: [electing, unknown, fetched(DATA)]})) as node:
        got = await asyncio.to_thread(query(node, lambda observer: observer.fetch(0), gone.address))
        assert got.data == DATA
        assert [partition_of(request).current_leader_epoch for request in node.requests[-2:]] == [5, 5]


@pytest.mark.asyncio
async def test_discovered_nodes_are_used_without_bootstrap() -> None:
    """A stream outlives its bootstrap node, and so do its tasks, which run elsewhere."""
    async with FakeNode(lambda request: script(there)(request)) as other:
        there = {ApiKey.FETCH: [fetched()], ApiKey.DESCRIBE_QUORUM: [described(9, voters=[other.address])]}
        here = there | {ApiKey.DESCRIBE_QUORUM: [described(7, voters=[other.address])]}
        async with FakeNode(script(here)) as given:
            host, port = given.address
            log = LiveLog(parse_options({"bootstrap": f"{host}:{port}"}))
            assert (await asyncio.to_thread(log.look)).offset == 7
        assert (await asyncio.to_thread(log.look)).offset == 9
        (task,) = log.tasks(Reached(-1, 7, -1), Reached(-1, 9, -1))
        assert isinstance(task, LiveTask)
        assert task.addresses == (given.address, other.address)
        log.close()


@pytest.mark.asyncio
async def test_timeout_is_reported_with_last_reason(waits: None) -> None:
    async with FakeNode(script({})) as gone:
        pass
    with pytest.raises(RequestFailed, match=r"offset 0\b.*\b300 s.*127\.0\.0\.1:"):
        await asyncio.to_thread(query(gone, lambda observer: observer.fetch(0)))
    denied = fetched(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    async with FakeNode(script({ApiKey.FETCH: [denied]})) as node:
        with pytest.raises(RequestFailed, match=r"Fetch .*CLUSTER_AUTHORIZATION_FAILED"):
            await asyncio.to_thread(query(node, lambda observer: observer.fetch(0)))
    broker = {key: versions for key, versions in ALL_APIS.items() if key != ApiKey.FETCH}
    async with FakeNode(script({}), broker) as node:
        with pytest.raises(RequestFailed, match=r"\bFetch\b"):
            await asyncio.to_thread(query(node, lambda observer: observer.fetch(0)))


@pytest.mark.asyncio
async def test_stock_leader_with_snapshot_is_read_after_first_record() -> None:
    async with FakeNode(script({ApiKey.FETCH: [fetched(snapshot_end=9), fetched(DATA)]})) as node:
        got = await asyncio.to_thread(query(node, lambda observer: observer.fetch(0)))
        assert got.data == DATA
        assert [partition_of(request).fetch_offset for request in node.requests[-2:]] == [0, 1]


@pytest.mark.asyncio
async def test_fetch_finds_leader_if_describe_quorum_does_not() -> None:
    there = {ApiKey.DESCRIBE_QUORUM: [described(9)], ApiKey.FETCH: [fetched()]}
    async with FakeNode(script(there)) as leader:
        here: dict[int, list[Message]] = {
            ApiKey.DESCRIBE_QUORUM: [described(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)],
            ApiKey.FETCH: [fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, at=leader.address)],
        }
        async with FakeNode(script(here)) as follower:
            assert await asyncio.to_thread(query(follower, lambda observer: observer.extent())) == (0, 9, 1)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "response",
    [fetched(error=ErrorCode.OFFSET_OUT_OF_RANGE), fetched(snapshot_end=9, log_start=5)],
    ids=["quorumd", "stock"],
)
async def test_records_only_in_snapshot_are_reported(response: Message) -> None:
    async with FakeNode(script({ApiKey.FETCH: [response]})) as node:
        with pytest.raises(InputIncomplete, match=r"offset 0\b.*node 1\b.*snapshot"):
            await asyncio.to_thread(query(node, lambda observer: observer.fetch(0)))


@pytest.mark.asyncio
async def test_extent_ends_at_high_watermark_or_log_end() -> None:
    replies = {ApiKey.DESCRIBE_QUORUM: [described(-1), described(9)], ApiKey.FETCH: [fetched()]}
    async with FakeNode(script(replies)) as node:
        assert await asyncio.to_thread(query(node, lambda observer: observer.extent())) == (0, 9, 1)
        everything = query(node, lambda observer: observer.extent(), committed_only=False)
        assert await asyncio.to_thread(everything) == (0, 12, 1)
        message: Any = node.requests[-1].message
        assert message.replica_state.replica_id == OBSERVER_ID


@pytest.mark.asyncio
async def test_read_waits_for_leader_with_lower_high_watermark(waits: None) -> None:
    replies: list[Message] = [fetched(BATCHES[0], hw=3), fetched(b"", hw=3), fetched(BATCHES[1] + BATCHES[2])]
    async with FakeNode(script({ApiKey.FETCH: replies})) as node:
        read = await asyncio.to_thread(query(node, lambda observer: [f.data for f in observer.read(0, 9)]))
        assert read == [BATCHES[0], BATCHES[1] + BATCHES[2]]
        assert [partition_of(request).fetch_offset for request in node.requests if request.api_key == 1] == [
            0,
            3,
            3,
        ]
    async with FakeNode(script({ApiKey.FETCH: [fetched(b"", hw=3)]})) as node:
        with pytest.raises(RequestFailed, match=r"offset 3\b.*\b9\b"):
            await asyncio.to_thread(query(node, lambda observer: list(observer.read(3, 9))))


@pytest.mark.asyncio
async def test_snapshot_is_fetched_in_pieces() -> None:
    replies: dict[int, list[Message]] = {
        ApiKey.FETCH: [fetched(snapshot_end=9)],
        ApiKey.FETCH_SNAPSHOT: [piece(b"abc", 0, 5), piece(b"de", 3, 5)],
    }
    async with FakeNode(script(replies)) as node:
        assert await asyncio.to_thread(query(node, lambda observer: observer.newest_snapshot())) == (9, 4)
        assert await asyncio.to_thread(query(node, copied)) == (b"abcde", (9, 4))
        assert [partition_of(request).position for request in node.requests[-2:]] == [0, 3]
    async with FakeNode(script({ApiKey.FETCH: [fetched(DATA)]})) as node:
        assert await asyncio.to_thread(query(node, copied)) == (b"", None)


def copied(observer: Observer) -> tuple[bytes, OffsetAndEpoch | None]:
    file = io.BytesIO()
    snapshot = observer.copy_snapshot(file)
    return file.getvalue(), snapshot


@pytest.mark.asyncio
async def test_deleted_snapshot_is_replaced_by_newest() -> None:
    gone = piece(b"", 0, 0, ErrorCode.SNAPSHOT_NOT_FOUND)
    replies: dict[int, list[Message]] = {
        ApiKey.FETCH: [fetched(snapshot_end=9), fetched(snapshot_end=12)],
        ApiKey.FETCH_SNAPSHOT: [piece(b"abc", 0, 5), gone, piece(b"new", 0, 3)],
    }
    async with FakeNode(script(replies)) as node:
        assert await asyncio.to_thread(query(node, copied)) == (b"new", (12, 4))
        assert partition_of(node.requests[-1]).snapshot_id.end_offset == 12
    replies = {ApiKey.FETCH: [fetched(snapshot_end=9)], ApiKey.FETCH_SNAPSHOT: [gone]}
    async with FakeNode(script(replies)) as node:
        with pytest.raises(RequestFailed, match="snapshots"):
            await asyncio.to_thread(query(node, copied))


@pytest.mark.asyncio
async def test_epoch_is_known_before_a_snapshot_is_fetched() -> None:
    """A stock leader cannot encode its refusal of a FetchSnapshot in epoch 0."""
    fenced = fetched(error=ErrorCode.FENCED_LEADER_EPOCH, leader=(1, 7))
    replies: dict[int, list[Message]] = {
        ApiKey.FETCH: [fenced, fetched(snapshot_end=9, leader=(1, 7))],
        ApiKey.FETCH_SNAPSHOT: [piece(b"abc", 0, 3)],
    }
    async with FakeNode(script(replies)) as node:
        await asyncio.to_thread(query(node, copied))
        assert partition_of(node.requests[-1]).current_leader_epoch == 7
    replies[ApiKey.FETCH] = [fetched(snapshot_end=9, leader=(1, 8))]
    async with FakeNode(script(replies)) as node:
        await asyncio.to_thread(query(node, copied))
        assert partition_of(node.requests[-1]).current_leader_epoch == 8


@pytest.mark.asyncio
async def test_snapshot_is_completed_in_the_epoch_of_a_new_leader() -> None:
    """A stock leader closes the connection on a FetchSnapshot of an earlier epoch."""
    epoch = 4

    def response(request: Request) -> Message:
        nonlocal epoch
        partition = request.message.topics[0].partitions[0]  # type: ignore[attr-defined] # Fetch or FetchSnapshot
        if partition.current_leader_epoch != epoch:
            if request.api_key == ApiKey.FETCH:
                return fetched(error=ErrorCode.FENCED_LEADER_EPOCH, leader=(1, epoch), at=node.address)
            raise ConnectionError
        if request.api_key == ApiKey.FETCH:
            return fetched(snapshot_end=9, leader=(1, epoch))
        if partition.position == 0:
            epoch += 1
            return piece(b"abc", 0, 5)
        return piece(b"de", 3, 5)

    async with FakeNode(response) as node:
        assert await asyncio.to_thread(query(node, copied)) == (b"abcde", (9, 4))


@pytest.mark.asyncio
async def test_snapshot_is_read_from_the_leader_that_a_node_names() -> None:
    led: dict[int, list[Message]] = {
        ApiKey.FETCH: [fetched(leader=(2, 5))],
        ApiKey.FETCH_SNAPSHOT: [piece(b"de", 3, 5)],
    }
    async with FakeNode(script(led)) as leader:
        refusal = piece(b"", 0, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        refusal.topics[0].partitions[0].current_leader = snapshot.LeaderIdAndEpoch(2, 5)
        refusal.node_endpoints = [snapshot.NodeEndpoint(2, *leader.address)]
        replies: dict[int, list[Message]] = {
            ApiKey.FETCH: [fetched(snapshot_end=9)],
            ApiKey.FETCH_SNAPSHOT: [piece(b"abc", 0, 5), refusal],
        }
        async with FakeNode(script(replies)) as node:
            assert await asyncio.to_thread(query(node, copied)) == (b"abcde", (9, 4))
        assert partition_of(leader.requests[-1]).current_leader_epoch == 5


@pytest.mark.asyncio
async def test_cluster_without_leader_is_waited_for_with_a_message(waits: None) -> None:
    electing = fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(-1, 5))
    reported: list[str] = []
    replies: list[Message] = [*[electing] * 7, fetched(DATA)]
    async with FakeNode(script({ApiKey.FETCH: replies})) as node:
        got = query(node, lambda observer: observer.fetch(0), report=reported.append, timeout_s=3000)
        assert (await asyncio.to_thread(got)).data == DATA
    (text,) = reported
    assert shows(text, "3000 s", "no leader")


@pytest.mark.asyncio
@pytest.mark.parametrize("cluster_id", ["MkU3OEVBNTcwNTJENDM2Qg", ""])
async def test_cluster_id_is_that_of_the_controllers(cluster_id: str) -> None:
    response = DescribeClusterResponse(cluster_id=cluster_id, endpoint_type=2)
    async with FakeNode(script({ApiKey.DESCRIBE_CLUSTER: [response]})) as node:
        found = await asyncio.to_thread(query(node, lambda observer: observer.cluster_id()))
        assert found == (cluster_id or None)
        message: Any = node.requests[-1].message
        assert message.endpoint_type == 2
