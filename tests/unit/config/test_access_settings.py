"""Settings of the authorizer and of delegation tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorumd.config import load
from quorumd.errors import ConfigError
from quorumd.node.settings import NodeSettings
from quorumd.quotas.client_quotas import QuotaSettings
from quorumd.security.authorizer import AuthorizerSettings

PLAIN = "node.id=1\nlog.dirs=data\nlisteners=CONTROLLER://127.0.0.1:9093\nquorum.voters=1\n"
STANDARD = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"


def settings(tmp_path: Path, lines: str) -> NodeSettings:
    path = tmp_path / "node.properties"
    path.write_text(PLAIN + lines)
    return load(str(path)).node_settings()


def test_without_an_authorizer_there_are_no_rules(tmp_path: Path) -> None:
    assert settings(tmp_path, "").authorizer is None


def test_standard_authorizer_reads_kafkas_settings(tmp_path: Path) -> None:
    lines = STANDARD + "super.users=User:CN=a,O=b; User:c\nallow.everyone.if.no.acl.found=true\n"
    expected = AuthorizerSettings(frozenset({"User:CN=a,O=b", "User:c"}), True, frozenset({"CONTROLLER"}))
    assert settings(tmp_path, lines).authorizer == expected
    early = settings(tmp_path, STANDARD + "early.start.listeners=OTHER\n").authorizer
    assert early == AuthorizerSettings(early_start_listeners=frozenset({"OTHER"}))


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ("authorizer.class.name=com.example.Mine", ("com.example.Mine", "StandardAuthorizer")),
        ("super.users=alice", ("super.users", "User:alice")),
        ("allow.everyone.if.no.acl.found=perhaps", ("true", "false")),
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
