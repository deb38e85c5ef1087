"""The quotas that the administrator of access sets, some of which its clients exceed, and the requests of clients."""

from __future__ import annotations

from random import Random

from quorumd.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from quorumd.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from quorumd.protocol.response_errors import errors_in
from quorumd.protocol.wire import Message
from quorumd.quotas.entities import MUTATION_RATE
from quorumd.simulator.checkers import access
from quorumd.simulator.checkers.access import ALLOW, CLUSTER, CLUSTER_NAME, DENIED, GROUP, LITERAL, TOPIC
from quorumd.simulator.cluster import Cluster
from quorumd.simulator.environment.event_heap import Process
from quorumd.simulator.workload.access_client import ADMINISTRATOR_HOST
from quorumd.simulator.workload.access_requests import CLIENTS, QUOTAS, AccessRequests, access_request
from quorumd.simulator.workload.request_connection import RequestConnection
from tests.support.simulator.simulated_cluster import elect, make_cluster, run


def test_only_rates_of_mutations_are_small() -> None:
    requests = AccessRequests(Random(1))
    drawn = [requests.change([], 0.0)[0] for _ in range(400)]
    quotas = [
        op
        for each in drawn
        if isinstance(each, AlterClientQuotasRequest)
        for entry in each.entries
        for op in entry.ops
    ]
    assert {op.key for op in quotas} == {key for key, _ in QUOTAS}
    assert all((op.value < 1.0) == (op.key == MUTATION_RATE) for op in quotas)
    assert len({op.value for op in quotas}) == len(quotas)


def test_every_right_is_needed_by_its_requests_only() -> None:
    """Each request of a client is denied without any right, and never with the right on everything."""
    cluster = make_cluster(1, access_ms=1000.0)
    elect(cluster)
    requests, sent = AccessRequests(Random(2)), set()
    cluster.network.principals |= {host: principal for principal, host in CLIENTS}
    for is_granted in (False, True):
        if is_granted:
            everything = ((TOPIC, "*"), (GROUP, "*"), (CLUSTER, CLUSTER_NAME))
            acls = [AclCreation(*each, LITERAL, "User:*", "*", access.ALL, ALLOW) for each in everything]
            assert not codes_of(response_to(cluster, ADMINISTRATOR_HOST, CreateAclsRequest(acls), 3))
        for _ in range(150):
            question = requests.question(CLIENTS[0], 0.0)
            request, version = access_request(question)
            codes = codes_of(response_to(cluster, CLIENTS[0][1], request, version))
            assert DENIED.isdisjoint(codes) == is_granted, (question, request, codes)
            sent.add(type(request))
    assert len(sent) >= 18


def response_to(cluster: Cluster, host: str, request: Message, version: int) -> Message:
    """Send a request and return its response."""
    responses: list[Message | None] = []
    link = RequestConnection("client", request, version, responses.append)
    machine = cluster.running()[0]
    cluster.network.host(host, Process("client")).connect(machine.host, machine.port, link)
    run(cluster, 5000.0, lambda: bool(responses))
    link.abandon()
    assert responses[0] is not None
    return responses[0]


def codes_of(message: Message) -> set[int]:
    return {code for code, _ in errors_in(message)}
