"""`configs`: arguments become changes, and results become lines or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import click
import pytest

from quorumd.cli import configs
from quorumd.cli.configs import parse_assignments
from quorumd.cli.root import run
from quorumd.protocol.messages.describe_configs_response import DescribeConfigsResourceResult
from tests.support.text import shows

RESOURCE = ("--bootstrap-server", "127.0.0.1:1", "--type", "group", "--name", "orders")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Requests to a cluster in which group orders has a=1 and b=2."""
    made: list[tuple[Any, ...]] = []

    def describe(kind: int, name: str, keys: list[str] | None) -> list[DescribeConfigsResourceResult]:
        made.append(("describe", kind, name, keys))
        values = {"b": "2", "a": "1"}
        if keys == ["inherited"]:
            return [DescribeConfigsResourceResult("inherited", "3", False, 5)]
        return [
            DescribeConfigsResourceResult(key, values[key], False, 8)
            for key in keys or values
            if key in values
        ]

    def alter(kind: int, name: str, changes: dict[str, str | None], *, by_broker: bool = False) -> None:
        made.append(("alter by a broker" if by_broker else "alter", kind, name, changes))

    def send(servers: object, question: Callable[[Any], Any]) -> Any:
        return question(SimpleNamespace(describe_configs=describe, alter_configs=alter))

    monkeypatch.setattr(configs, "run_admin", send)
    return made


def test_values_may_be_empty_and_hold_equals_signs() -> None:
    assert parse_assignments(["a=1", "b=", "c=x=y"]) == {"a": "1", "b": "", "c": "x=y"}


@pytest.mark.parametrize("wrong", [["a"], ["=1"], ["a=1", "a=2"]])
def test_invalid_assignment_is_rejected(wrong: list[str]) -> None:
    with pytest.raises(click.BadParameter):
        parse_assignments(wrong)


def test_set_and_delete_send_one_request_each(calls: list[tuple[Any, ...]]) -> None:
    assert run(["configs", "set", *RESOURCE, "a=1", "b=2"]) == 0
    assert run(["configs", "delete", *RESOURCE, "a"]) == 0
    assert [call for call in calls if call[0] == "alter"] == [
        ("alter", 32, "orders", {"a": "1", "b": "2"}),
        ("alter", 32, "orders", {"a": None}),
    ]


@pytest.mark.parametrize(
    ("kind", "change", "sent"),
    [
        ("broker", "cordoned.log.dirs=/a", "alter by a broker"),
        ("broker", "cordoned.log.dirs=", "alter"),
        ("broker", "log.cleaner.threads=2", "alter"),
        ("group", "cordoned.log.dirs=/a", "alter"),
    ],
)
def test_only_cordons_are_set_through_the_broker(
    kind: str, change: str, sent: str, calls: list[tuple[Any, ...]]
) -> None:
    assert run(["configs", "set", *RESOURCE[:2], "--type", kind, "--name", "7", change]) == 0
    assert [call[0] for call in calls] == [sent]


def test_set_and_delete_print_changes_as_json(
    calls: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["configs", "set", *RESOURCE, "a=1", "b=", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "type": "group",
        "name": "orders",
        "set": {"a": "1", "b": ""},
    }
    assert run(["configs", "delete", *RESOURCE, "a", "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"type": "group", "name": "orders", "deleted": ["a"]}


def test_deleting_unset_config_fails(
    calls: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    """As with Kafka's own tool, a misspelt name is not accepted as deleted."""
    assert run(["configs", "delete", *RESOURCE, "a", "d", "c"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert shows(err, "error: group 'orders'", "c, d", "nothing was deleted")
    # Group orders inherits it, as broker 1 inherits the default of all brokers; it is not its own.
    assert run(["configs", "delete", *RESOURCE, "inherited"]) == 1
    assert {call[0] for call in calls} == {"describe"}


def test_get_prints_configs_in_order(
    calls: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["configs", "get", *RESOURCE]) == 0
    assert capsys.readouterr().out == "a=1\nb=2\n"
    assert run(["configs", "get", *RESOURCE, "--output", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[0] == {"name": "a", "value": "1", "source": "DYNAMIC_GROUP_CONFIG", "readOnly": False}


def test_get_of_unset_config_fails(calls: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["configs", "get", *RESOURCE, "a", "c"]) == 1
    out, err = capsys.readouterr()
    assert out == "a=1\n"
    assert "has no config c" in err
