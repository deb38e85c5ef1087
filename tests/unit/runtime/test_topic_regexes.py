"""Regular expressions of subscriptions with RE2: whole matches, limits, errors, and a broker without the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

from quorumd.errors import ErrorCode, RequestError
from quorumd.runtime.topic_regexes import MAX_SIZE, compile_regex, estimated_size


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


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", r"(a)\1", "(?=a)", "[z-a]", "*", "a" * MAX_SIZE + "a"])
def test_invalid_expression_is_refused(pattern: str) -> None:
    with pytest.raises(RequestError) as refused:
        compile_regex(pattern)
    assert refused.value.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("pattern", [r"\pL{1000}", "(.{999}){9}", "((a{100}){100}){100}", "x{1,999}"])
def test_expression_with_a_large_program_is_refused(pattern: str) -> None:
    with pytest.raises(RequestError) as refused:
        compile_regex(pattern)
    assert refused.value.error is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    ("piece", "count"), [(r"\pL", 9), (r"\PN", 9), ("ö", 9), (r"\x{e9}", 9), ("x{0,999}|", 5), ("x{999}|", 5)]
)
def test_expression_is_refused_before_its_expansion(piece: str, count: int) -> None:
    """RE2 would expand it before it finds the program too large: 70 ms for 1,300 Unicode classes."""
    assert estimated_size(piece * count) > MAX_SIZE >= estimated_size(piece * (count - 1))
    with pytest.raises(RequestError) as refused:
        compile_regex(piece * count)
    assert refused.value.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert f"at most {MAX_SIZE}" in str(refused.value)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?i)orders-.*",
        "|".join(f"topic-{number}-[a-z]+" for number in range(200)),
        r"(eu|us)\.\d{4}\.\w{1,249}",
    ],
)
def test_usual_expression_is_compiled(pattern: str) -> None:
    assert compile_regex(pattern).size > 10


def test_invalid_expressions_are_not_logged(capfd: pytest.CaptureFixture[str]) -> None:
    """RE2 would write a line for each of them to the standard error."""
    with pytest.raises(RequestError):
        compile_regex("a(b")
    assert capfd.readouterr().err == ""


def test_size_grows_with_the_program() -> None:
    assert compile_regex("a").size < 10
    assert compile_regex("(a{0,20}){0,20}").size > 500


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
