"""Regular expressions of subscriptions with RE2: whole matches, limits, errors, and a broker without the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

from quorumd.errors import ErrorCode, RequestError
from quorumd.runtime.topic_regexes import MAX_LENGTH, compile_regex


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("^orders-.*", ["orders-", "orders-1"], ["orders", "my-orders-1"]),
        ("orders", ["orders"], ["orders-1"]),
        ("a|ab", ["a", "ab"], ["abc"]),
        (r"[a-c]+\d{2}\.x", ["abc12.x"], ["abc12xx"]),
        ("(?i)orders", ["ORDERS"], ["order"]),
    ],
)
def test_whole_name_matches(pattern: str, matching: list[str], others: list[str]) -> None:
    regex = compile_regex(pattern)
    assert [name for name in matching + others if regex.matches(name)] == matching


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", r"(a)\1", "(?=a)", "[z-a]", "*", "a" * MAX_LENGTH + "a"])
def test_invalid_expression_is_refused(pattern: str) -> None:
    with pytest.raises(RequestError) as refused:
        compile_regex(pattern)
    assert refused.value.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("pattern", [r"\pL{1000}", "(.{999}){9}", "((a{100}){100}){100}"])
def test_expression_with_a_large_program_is_refused(pattern: str) -> None:
    with pytest.raises(RequestError) as refused:
        compile_regex(pattern)
    assert refused.value.error is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_size_grows_with_the_program() -> None:
    assert compile_regex("a").size < 10
    assert compile_regex("(a{0,30}){0,30}").size > 500


def test_error_names_the_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(RequestError) as refused:
        compile_regex("a")
    assert refused.value.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "pip install 'quorumd[regex]'" in str(refused.value)


def test_daemon_imports_the_package_with_the_first_expression() -> None:
    code = (
        "import sys, quorumd.runtime.daemon as daemon; assert 're2' not in sys.modules; "
        "daemon.compile_regex('a'); assert 're2' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
