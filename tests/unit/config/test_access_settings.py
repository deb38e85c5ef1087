"""Settings of the authorizer and of delegation tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorumd.config import load
from quorumd.errors import ConfigError
from quorumd.node.settings import NodeSettings
from quorumd.quotas.client_quotas import QuotaSettings
from quorumd.security.authorizer import AuthorizerSettings

LISTENER = "listeners=CONTROLLER://127.0.0.1:9093\n"
PLAIN = f"node.id=1\nlog.dirs=data\n{LISTENER}quorum.voters=1\n"
STANDARD = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"


def settings(tmp_path: Path, lines: str) -> NodeSettings:
    path = tmp_path / "node.properties"
    own = PLAIN if "listeners=CONTROLLER:" not in lines else PLAIN.replace(LISTENER, "")
    path.write_text(own + lines)
    return load(str(path)).node_settings()


def test_without_an_authorizer_there_are_no_rules(tmp_path: Path) -> None:
    assert settings(tmp_path, "").authorizer is None


def test_standard_authorizer_reads_kafkas_settings(tmp_path: Path) -> None:
    lines = STANDARD + "super.users=User:CN=a,O=b; User:c\nallow.everyone.if.no.acl.found=true\n"
    expected = AuthorizerSettings(frozenset({"User:CN=a,O=b", "User:c"}), True, frozenset({"CONTROLLER"}))
    assert settings(tmp_path, lines).authorizer == expected


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ("", {"CONTROLLER", "SECOND"}),
        ("controller.listener.names=CONTROLLER\n", {"CONTROLLER", "SECOND"}),
        ("early.start.listeners=CONTROLLER\n", {"CONTROLLER"}),
        ("process.roles=broker,controller\ncontroller.listener.names=CONTROLLER\n", {"CONTROLLER"}),
    ],
)
def test_controllers_listeners_start_early(tmp_path: Path, lines: str, names: set[str]) -> None:
    both = "listeners=CONTROLLER://127.0.0.1:9093,SECOND://127.0.0.1:9094\n"
    protocols = "listener.security.protocol.map=SECOND:PLAINTEXT\n"
    found = settings(tmp_path, both + protocols + STANDARD + lines).authorizer
    assert found == AuthorizerSettings(early_start_listeners=frozenset(names))


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ("authorizer.class.name=com.example.Mine", ("com.example.Mine", "StandardAuthorizer")),
        ("super.users=alice", ("super.users", "User:alice")),
        ("allow.everyone.if.no.acl.found=perhaps", ("true", "false")),
        ("early.start.listeners=OTHER", ("early.start.listeners", "CONTROLLER")),
        (
            "listeners=CONTROLLER://127.0.0.1:9093,PLAINTEXT://127.0.0.1:9094\nearly.start.listeners=PLAINTEXT",
            ("early.start.listeners", "CONTROLLER"),
        ),
    ],
)
def test_wrong_values_are_refused(tmp_path: Path, line: str, facts: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as refusal:
        settings(tmp_path, line + "\n")
    for fact in facts:
        assert fact in str(refusal.value)


def test_quotas_are_measured_over_kafkas_windows(tmp_path: Path) -> None:
    assert settings(tmp_path, "").quotas == QuotaSettings(11, 1, 11, 1)
    lines = "quota.window.num=5\nquota.window.size.seconds=2\n"
    mutations = "controller.quota.window.num=3\ncontroller.quota.window.size.seconds=4\n"
    assert settings(tmp_path, lines + mutations).quotas == QuotaSettings(5, 2, 3, 4)
