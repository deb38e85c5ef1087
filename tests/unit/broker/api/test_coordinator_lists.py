"""ListGroups and ListTransactions: what a client may see, in slices."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from quorumd.broker.coordinator.classic_group import ClassicGroup
from quorumd.broker.coordinator.transaction import Transaction
from quorumd.broker.settings.coordinator_settings import TransactionSettings
from quorumd.protocol.messages.list_groups_request import ListGroupsRequest
from quorumd.protocol.messages.list_transactions_request import ListTransactionsRequest
from quorumd.protocol.wire import Message
from quorumd.security.acls import Acl, Operation, ResourceType
from quorumd.security.authorizer import Access
from quorumd.security.authorizer import Client as AccessClient
from tests.support.broker.api_clients import Client, cluster_with_groups
from tests.support.call_counter import CallCounter
from tests.support.node.recording_session import RecordingSession
from tests.support.security.rights import allow, authorizer_of, on_cluster

GROUP, TRANSACTION = ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
SETTINGS = TransactionSettings(topic_partitions=3, topic_replication_factor=1, topic_min_isr=1)
LISTS = (ListGroupsRequest(), ListTransactionsRequest())


class Name(str):
    """A name whose comparisons are calls that a CallCounter counts."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__lt__(self, other)


def client_with(names: Iterable[str]) -> Client:
    """A client of a broker with a group and a transactional id of each name."""
    client = Client(cluster_with_groups(transactions=SETTINGS))
    client.find_coordinator("g")
    client.find_coordinator("g", 1)
    client.cluster.run_for(1_000)
    coordinators = client.cluster.brokers[1].broker.coordinators
    groups, transactions = (
        shards.all()[0].machine for shards in (coordinators._groups, coordinators._transactions)
    )
    for name in names:
        groups.classic[name] = ClassicGroup(name, 0)
        transactions.transactions[name] = Transaction(1, 0, 1)
    return client


def listed(client: Client, message: Message) -> list[str]:
    response = client.call(message)
    if isinstance(message, ListGroupsRequest):
        return sorted(group.group_id for group in response.groups)
    return sorted(state.transactional_id for state in response.transaction_states)


def with_rights(client: Client, *acls: Acl) -> Client:
    access = Access(authorizer_of(acls), AccessClient("User:alice", "10.0.0.1", "List"))
    client.use(list(client.cluster.brokers[1].broker.routes(lambda session, key: access)))
    return client


@pytest.mark.parametrize("message", LISTS, ids=lambda each: each.NAME)
def test_lists_show_what_may_be_described(message: Message) -> None:
    client = client_with("ab")
    assert listed(client, message) == ["a", "b"]
    kind = GROUP if isinstance(message, ListGroupsRequest) else TRANSACTION
    assert listed(with_rights(client, allow(Operation.DESCRIBE, kind, "b")), message) == ["b"]
    assert listed(with_rights(client), message) == []


def test_describe_on_the_cluster_shows_all_groups() -> None:
    assert listed(with_rights(client_with("ab"), on_cluster(Operation.DESCRIBE)), LISTS[0]) == ["a", "b"]


@pytest.mark.parametrize("message", LISTS, ids=lambda each: each.NAME)
def test_turns_are_bounded(message: Message) -> None:
    """A list of 15,000 groups took 100 ms in one turn. Sorting counts, too."""
    longest = []
    for count in (1000, 8000):
        client = client_with(Name(f"{number:05}") for number in range(count))
        calls, client.session = CallCounter(), RecordingSession()
        with calls.counted():
            client.send(message)
        while not client.responses:
            with calls.counted():
                client.cluster.heap.step(client.cluster.heap.now_ms + 1000)
        longest.append(calls.longest)
    assert longest[1] <= 1.2 * longest[0]


@pytest.mark.parametrize(
    "message",
    [
        ListGroupsRequest,
        lambda names: ListGroupsRequest([], names),
        ListTransactionsRequest,
        lambda names: ListTransactionsRequest([], list(map(int, names))),
    ],
    ids=["states of groups", "types of groups", "states of transactions", "producer ids"],
)
def test_many_filters_take_many_turns(message: Callable[[list[str]], Message]) -> None:
    """No right is needed to list: 200,000 states took 51 ms in one turn."""
    turns = []
    for count in (0, 10_000):
        client = client_with("a")
        client.session = RecordingSession()
        client.send(message([str(number) for number in range(count)]))
        turns.append(0)
        while not client.responses:
            client.cluster.heap.step(client.cluster.heap.now_ms + 1000)
            turns[-1] += 1
    assert turns[1] >= turns[0] + 10
