"""Tokens of OAUTHBEARER for a client: requested from a server of the test, or read from a file."""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import pytest

from quorumd.client import oauth
from quorumd.client.oauth import TokenSource, read_url
from quorumd.errors import AuthenticationFailed

OPTIONS = {"clientId": "node-1", "clientSecret": "a b:c", "scope": "kafka"}


class Provider(HTTPServer):
    """An identity provider that numbers its tokens."""

    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/token"
        self.requests: list[tuple[str, dict[str, list[str]]]] = []
        self.response: dict[str, Any] | None = None


class Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        requests = self.server.requests
        requests.append((self.headers["Authorization"], form))
        response = self.server.response
        body = json.dumps(
            {"access_token": f"token-{len(requests)}", "expires_in": 100} if response is None else response
        ).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        del format, arguments


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as made:
        thread = Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            thread.join()


def test_token_is_requested_with_the_credentials_of_the_client(provider: Provider) -> None:
    assert TokenSource(provider.url, OPTIONS)() == "token-1"
    login = b64encode(b"node-1:a%20b%3Ac").decode()
    assert provider.requests == [
        (f"Basic {login}", {"grant_type": ["client_credentials"], "scope": ["kafka"]})
    ]


def test_token_is_replaced_before_it_expires(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr(oauth.time, "monotonic", lambda: now_s)
    source = TokenSource(provider.url, OPTIONS)
    with pytest.raises(AuthenticationFailed):
        source.current()
    assert [source(), source.current(), source.renew_in_s] == ["token-1", "token-1", 80.0]
    now_s += 79
    assert source() == "token-1"
    now_s += 1
    assert [source(), source.current()] == ["token-2", "token-2"]


@pytest.mark.parametrize("response", [{}, {"access_token": "x", "expires_in": "soon"}])
def test_unusable_response_is_an_error_that_names_the_url(
    provider: Provider, response: dict[str, Any]
) -> None:
    provider.response = response
    with pytest.raises(AuthenticationFailed, match=provider.url):
        TokenSource(provider.url, OPTIONS)()


def test_token_may_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    path.write_text("from-file\n")
    assert TokenSource(f"file://{str(path).replace(' ', '%20')}", {})() == "from-file"
    with pytest.raises(AuthenticationFailed, match="absent"):
        TokenSource(f"file://{tmp_path}/absent", {})()


def test_documents_are_bounded_and_of_known_schemes(provider: Provider) -> None:
    with pytest.raises(ValueError, match="ftp"):
        read_url("ftp://127.0.0.1/keys")
    provider.response = {"padding": "x" * oauth.MAX_BYTES}
    with pytest.raises(ValueError, match="more than"):
        read_url(provider.url, b"")


@pytest.mark.parametrize(
    "response",
    [b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n", b"", b"HTTP/1.1 x\r\n"],
)
def test_what_is_not_http_is_an_error_of_reading(response: bytes) -> None:
    """Another exception would stop a node that reads its keys."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def respond() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(response)

        thread = Thread(target=respond)
        thread.start()
        with pytest.raises(OSError):
            read_url(f"http://127.0.0.1:{server.getsockname()[1]}/keys")
        thread.join()
