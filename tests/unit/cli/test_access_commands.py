"""`quorumd acls`, `users`, `quotas` and `tokens`, on the planners of a controller."""

from __future__ import annotations

import asyncio
import json
from types import ModuleType
from typing import Any

import click
import pytest
from click.testing import CliRunner

from quorumd.cli import acls, quotas, tokens, users
from quorumd.controller.acl_requests import describe_acls, plan_create_acls, plan_delete_acls
from quorumd.controller.client_quotas import describe_client_quotas, plan_alter_client_quotas
from quorumd.controller.delegation_tokens import (
    Requester,
    describe_delegation_tokens,
    plan_create_delegation_token,
    plan_expire_delegation_token,
    plan_renew_delegation_token,
)
from quorumd.controller.request_context import RequestContext
from quorumd.controller.scram_requests import (
    describe_user_scram_credentials,
    plan_alter_user_scram_credentials,
)
from quorumd.errors import RequestFailed
from quorumd.protocol.apis import APIS, ApiKey
from quorumd.protocol.codec import decode, encode
from quorumd.protocol.wire import Message
from tests.support.client.fake_admin import SERVER
from tests.support.protocol.steps import run_steps
from tests.support.security.controllers import SecurityController

ADMIN = Requester("User:admin")
PLANNERS: dict[int, Any] = {
    ApiKey.CREATE_ACLS: plan_create_acls,
    ApiKey.DELETE_ACLS: plan_delete_acls,
    ApiKey.ALTER_CLIENT_QUOTAS: plan_alter_client_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: plan_alter_user_scram_credentials,
    ApiKey.CREATE_DELEGATION_TOKEN: plan_create_delegation_token,
    ApiKey.RENEW_DELEGATION_TOKEN: plan_renew_delegation_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: plan_expire_delegation_token,
}
WITH_REQUESTER = (
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
)


class Admin:
    """Handles requests with a controller, through their newest encoding."""

    def __init__(self) -> None:
        self.cluster = SecurityController(has_authorizer=True, token_secret_key="secret")

    async def request(self, message: Message, response_class: type[Message], node: str) -> Message:
        assert node == "leader"
        assert message.API_KEY is not None
        version = APIS[message.API_KEY].max_version
        received = decode(type(message), version, encode(message, version))
        response = self._handle(message.API_KEY, received, version)
        return decode(response_class, version, encode(response, version))

    def _handle(self, key: int, message: Any, version: int) -> Message:
        image, controller = self.cluster.image, self.cluster.controller
        if key == ApiKey.DESCRIBE_ACLS:
            return run_steps(describe_acls(image, message))[1]
        if key == ApiKey.DESCRIBE_CLIENT_QUOTAS:
            return run_steps(describe_client_quotas(image, message))[1]
        if key == ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS:
            return run_steps(describe_user_scram_credentials(image, message))[1]
        if key == ApiKey.DESCRIBE_DELEGATION_TOKEN:
            return run_steps(describe_delegation_tokens(image, message, "secret", ADMIN, lambda token: True))[
                1
            ]
        options = (RequestContext(ADMIN),) if key in WITH_REQUESTER else ()
        made: Message = self.cluster.commit(PLANNERS[key](controller, message, version, *options)).response
        return made


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    made = Admin()
    modules: tuple[ModuleType, ...] = (acls, users, quotas, tokens)
    for module in modules:
        monkeypatch.setattr(module, "run_admin", lambda servers, work: asyncio.run(work(made)))
    return made


def run(command: click.Command, *arguments: str, **options: Any) -> str:
    result = CliRunner().invoke(command, [*arguments, *SERVER], catch_exceptions=False, **options)
    assert result.exit_code == 0, result.output
    return result.output


def test_acls_are_added_listed_and_removed(admin: Admin) -> None:
    topic = ("--principal", "User:alice", "--resource", "topic", "--name", "orders")
    shown = run(acls.acls, "add", *topic, "--operation", "read", "--operation", "write")
    assert shown.count("User:alice") == 2
    run(
        acls.acls,
        "add",
        "--principal",
        "User:b",
        "--resource",
        "cluster",
        "--operation",
        "cluster-action",
        "--deny",
    )
    run(acls.acls, "add", *topic[:4], "--name", "ord", "--prefix", "--operation", "all", "--host", "10.0.0.1")
    rows = json.loads(run(acls.acls, "list", "--output", "json"))
    assert len(rows) == 4
    assert rows[-1] == {
        "resource": "cluster",
        "name": "kafka-cluster",
        "pattern": "literal",
        "principal": "User:b",
        "host": "*",
        "operation": "cluster-action",
        "permission": "deny",
    }
    matching = run(acls.acls, "list", "--resource", "topic", "--name", "orders", "--pattern", "match")
    assert matching.count("topic") == 3
    removed = json.loads(run(acls.acls, "remove", "--operation", "write", "--output", "json"))
    assert [row["operation"] for row in removed] == ["write"]
    assert len(admin.cluster.image.security.acls.acls) == 3
    with pytest.raises(RequestFailed, match="no ACL"):
        run(acls.acls, "remove", "--operation", "write")


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "--principal", "User:a", "--resource", "topic", "--operation", "read"),
        ("add", "--principal", "User:a", "--resource", "topic", "--name", "t"),
        (
            "add",
            "--principal",
            "User:a",
            "--resource",
            "topic",
            "--name",
            "t",
            "--operation",
            "cluster-action",
        ),
        (
            "add",
            "--principal",
            "User:a",
            "--resource",
            "cluster",
            "--operation",
            "alter",
            "--host",
            "a.example",
        ),
        (
            "add",
            "--principal",
            "User:a",
            "--resource",
            "cluster",
            "--operation",
            "alter",
            "--host",
            "10.0.0.0/33",
        ),
        ("remove",),
    ],
)
def test_unusable_acls_are_usage_errors(admin: Admin, arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(acls.acls, [*arguments, *SERVER])
    assert result.exit_code == 2
    assert admin.cluster.image.security.acls.acls == {}


@pytest.mark.parametrize(
    ("given", "stored"),
    [("10.0.0.1", "10.0.0.1"), ("::1", "0:0:0:0:0:0:0:1"), ("*", "*")],
)
def test_host_is_stored_as_it_is_compared(admin: Admin, given: str, stored: str) -> None:
    run(
        acls.acls,
        "add",
        "--principal",
        "User:a",
        "--resource",
        "cluster",
        "--operation",
        "alter",
        "--host",
        given,
    )
    (acl,) = admin.cluster.image.security.acls.acls.values()
    assert acl.host == stored


def test_refused_acl_is_an_error(admin: Admin) -> None:
    with pytest.raises(RequestFailed, match="principal"):
        run(acls.acls, "add", "--principal", "alice", "--resource", "cluster", "--operation", "alter")


def test_users_are_added_listed_and_removed(admin: Admin) -> None:
    run(users.users, "add", "alice", "--password", "secret")
    run(users.users, "add", "bob", "--mechanism", "SCRAM-SHA-256", input="p\np\n")
    assert "SCRAM-SHA-512" in run(users.users, "list")
    assert json.loads(run(users.users, "list", "--output", "json")) == [
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
        {"user": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 4096},
    ]
    run(users.users, "remove", "alice")
    assert list(admin.cluster.image.security.scram) == [(1, "bob")]
    with pytest.raises(RequestFailed, match="alice"):
        run(users.users, "remove", "alice")


def test_password_is_required_without_a_terminal(admin: Admin) -> None:
    result = CliRunner().invoke(users.users, ["add", "alice", *SERVER])
    assert result.exit_code == 2
    assert "QUORUMD_PASSWORD" in result.output
    assert admin.cluster.image.security.scram == {}


def test_empty_password_is_refused(admin: Admin) -> None:
    result = CliRunner().invoke(users.users, ["add", "alice", "--password", "", *SERVER])
    assert result.exit_code == 2
    assert admin.cluster.image.security.scram == {}


def test_quotas_are_set_listed_and_removed(admin: Admin) -> None:
    run(quotas.quotas, "set", "producer_byte_rate=1048576", "request_percentage=12.5", "--user", "alice")
    run(quotas.quotas, "set", "connection_creation_rate=10", "--ip", "<default>")
    assert json.loads(run(quotas.quotas, "list", "--output", "json")) == [
        {"entity": {"ip": None}, "quotas": {"connection_creation_rate": 10.0}},
        {
            "entity": {"user": "alice"},
            "quotas": {"producer_byte_rate": 1048576.0, "request_percentage": 12.5},
        },
    ]
    assert "ip=<default>" in run(quotas.quotas, "list")
    for absent in (("consumer_byte_rate", "--user", "alice"), ("producer_byte_rate", "--user", "bob")):
        with pytest.raises(RequestFailed, match=absent[0]):
            run(quotas.quotas, "remove", "producer_byte_rate", *absent)
    assert len(admin.cluster.image.security.quotas) == 2
    run(quotas.quotas, "remove", "producer_byte_rate", "request_percentage", "--user", "alice")
    assert list(admin.cluster.image.security.quotas) == [(("ip", None),)]


@pytest.mark.parametrize(
    "arguments", [("set", "producer_byte_rate=1"), ("set", "producer_byte_rate=x", "--user", "a")]
)
def test_incomplete_quotas_are_usage_errors(admin: Admin, arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(quotas.quotas, [*arguments, *SERVER]).exit_code == 2


def test_tokens_are_created_listed_renewed_and_expired(admin: Admin) -> None:
    created = json.loads(run(tokens.tokens, "create", "--renewer", "User:bob", "--output", "json"))
    assert created["owner"] == "User:admin"
    (row,) = json.loads(run(tokens.tokens, "list", "--output", "json"))
    assert (row["tokenId"], row["renewers"]) == (created["tokenId"], ["User:bob"])
    assert created["tokenId"] in run(tokens.tokens, "list")
    admin.cluster.now_ms += 1000
    renewed = json.loads(
        run(tokens.tokens, "renew", created["hmac"], "--renew-period", "1h", "--output", "json")
    )
    assert renewed == {"expires": "1970-01-01T01:16:41+00:00"}
    assert "1970-01-01T00:46:41" in run(tokens.tokens, "expire", created["hmac"], "--expiry-period", "30m")
    run(tokens.tokens, "expire", created["hmac"])
    assert admin.cluster.image.security.tokens == {}
    owned = run(tokens.tokens, "create", "--owner", "User:c", "--max-lifetime", "1d", "--output", "json")
    described = json.loads(owned)
    assert (described["owner"], described["renewableUntil"]) == ("User:c", "1970-01-02T00:16:41+00:00")


@pytest.mark.parametrize("arguments", [("create", "--owner", "carol"), ("renew", "no base64!")])
def test_malformed_tokens_are_usage_errors(admin: Admin, arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(tokens.tokens, [*arguments, *SERVER]).exit_code == 2
