"""The HTTP port, with the requests of Prometheus and of probes."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from threading import Event, Semaphore

import pytest
from prometheus_client import CollectorRegistry, Counter

from quorumd.runtime import http_endpoint
from quorumd.runtime.descriptors import DescriptorLimit
from quorumd.runtime.http_endpoint import (
    MAX_CLIENTS,
    MAX_REQUEST_BYTES,
    MAX_THREADS,
    HttpEndpoint,
    ProbeResult,
)

PATIENCE_S = 300.0


class Reports:
    health = ProbeResult(True, "ok")
    readiness = ProbeResult(False, "not ready: no leader known")


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def endpoint(reports: Reports) -> Iterator[HttpEndpoint]:
    registry = CollectorRegistry()
    Counter("things", "Things counted.", registry=registry).inc(3)
    endpoint = HttpEndpoint(("127.0.0.1", 0))
    endpoint.start(registry, lambda: reports.health, lambda: reports.readiness)
    yield endpoint
    endpoint.close()


def get(endpoint: HttpEndpoint, path: str, **headers: str) -> tuple[int, str, str]:
    connection = HTTPConnection("127.0.0.1", endpoint.port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type", ""), response.read().decode()
    finally:
        connection.close()


def test_metrics_in_the_requested_format(endpoint: HttpEndpoint) -> None:
    status, content_type, text = get(endpoint, "/metrics?x=1")
    assert (status, content_type.split(";")[0]) == (200, "text/plain")
    assert "things_total 3.0\n" in text
    _, content_type, text = get(endpoint, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


def test_probes_are_evaluated_per_request(endpoint: HttpEndpoint, reports: Reports) -> None:
    assert get(endpoint, "/healthz")[::2] == (200, "ok\n")
    assert get(endpoint, "/readyz")[::2] == (503, "not ready: no leader known\n")
    reports.health, reports.readiness = ProbeResult(False, "stalled"), ProbeResult(True, "ready")
    assert get(endpoint, "/healthz")[::2] == (503, "stalled\n")
    assert get(endpoint, "/readyz")[::2] == (200, "ready\n")


def test_another_path_names_the_paths_there_are(endpoint: HttpEndpoint) -> None:
    assert get(endpoint, "/")[::2] == (404, "/metrics /healthz /readyz\n")


def test_silent_client_does_not_block_others(endpoint: HttpEndpoint) -> None:
    with socket.create_connection(("127.0.0.1", endpoint.port)):
        assert get(endpoint, "/healthz")[0] == 200


HEAD = b"GET /healthz HTTP/1.1\r\n"
HEADER = b"X: " + b"x" * 1000 + b"\r\n"
FITTING = (MAX_REQUEST_BYTES - len(HEAD)) // len(HEADER)


@pytest.mark.parametrize(
    ("request_head", "is_served"),
    [
        (HEAD + HEADER * FITTING, True),
        (HEAD + HEADER * (FITTING + 1), False),
        (HEAD + b"X: " + b"x" * MAX_REQUEST_BYTES + b"\r\n", False),
        (b"GET /healthz?" + b"x" * MAX_REQUEST_BYTES + b" HTTP/1.1\r\n", False),
    ],
    ids=["many headers", "more headers", "long header", "long path"],
)
def test_long_request_closes_its_connection(
    endpoint: HttpEndpoint, request_head: bytes, is_served: bool
) -> None:
    """Sixty clients with a hundred headers of 64 KiB made a node need 700 MiB more."""
    with socket.create_connection(("127.0.0.1", endpoint.port), PATIENCE_S) as client:
        client.sendall(request_head + b"\r\n")
        assert is_closed(client) != is_served


def test_taken_address_is_an_error(endpoint: HttpEndpoint) -> None:
    with pytest.raises(OSError, match="in use"):
        HttpEndpoint(("127.0.0.1", endpoint.port))


def is_closed(client: socket.socket) -> bool:
    """Whether the endpoint has closed the connection without a response."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.fixture
def no_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint does not close the connections of silent clients for their silence."""
    monkeypatch.setattr(http_endpoint, "CLIENT_TIMEOUT_S", 2 * PATIENCE_S)


@pytest.mark.usefixtures("no_timeout")
def test_idle_clients_do_not_block_others(reports: Reports) -> None:
    """The client that has been connected for the longest time is replaced."""
    with ExitStack() as stack:
        endpoint = HttpEndpoint(("127.0.0.1", 0))
        stack.callback(endpoint.close)
        endpoint.start(CollectorRegistry(), lambda: reports.health, lambda: reports.readiness)
        address = ("127.0.0.1", endpoint.port)
        oldest, *_ = [
            stack.enter_context(socket.create_connection(address, PATIENCE_S)) for _ in range(MAX_CLIENTS)
        ]
        assert get(endpoint, "/healthz")[::2] == (200, "ok\n")
        assert is_closed(oldest)


@pytest.mark.usefixtures("no_timeout")
def test_threads_of_replaced_clients_count_until_they_end() -> None:
    begun, may_end = Semaphore(0), Event()

    def wait() -> ProbeResult:
        begun.release()
        assert may_end.wait(PATIENCE_S)
        return Reports.health

    with ExitStack() as stack:
        endpoint = HttpEndpoint(("127.0.0.1", 0))
        stack.callback(endpoint.close)
        stack.callback(may_end.set)
        endpoint.start(CollectorRegistry(), wait, lambda: Reports.readiness)
        address = ("127.0.0.1", endpoint.port)
        for _ in range(MAX_THREADS):
            client = stack.enter_context(socket.create_connection(address, PATIENCE_S))
            client.sendall(HEAD + b"\r\n")
            assert begun.acquire(timeout=PATIENCE_S)
        refused = stack.enter_context(socket.create_connection(address, PATIENCE_S))
        refused.sendall(HEAD + b"\r\n")
        assert is_closed(refused)
        assert not begun.acquire(blocking=False)


@pytest.mark.usefixtures("no_timeout")
def test_connections_beyond_the_limit_of_open_files_are_closed() -> None:
    endpoint = HttpEndpoint(("127.0.0.1", 0), DescriptorLimit(4))
    endpoint.start(CollectorRegistry(), lambda: Reports.health, lambda: Reports.readiness)
    try:
        with socket.create_connection(("127.0.0.1", endpoint.port), PATIENCE_S) as client:
            client.sendall(HEAD + b"\r\n")
            assert is_closed(client)
    finally:
        endpoint.close()
