"""Every house rule is broken by a bad sample, and keeps quiet about the good one beside it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("house_rules", ROOT / "scripts" / "house_rules.py")
assert _spec is not None
assert _spec.loader is not None
house_rules = importlib.util.module_from_spec(_spec)
sys.modules["house_rules"] = house_rules
sys.path.insert(0, str(ROOT / "scripts"))
_spec.loader.exec_module(house_rules)
sys.path.remove(str(ROOT / "scripts"))

DOC = '"""A module."""\n'
MARKER = "TO" + "DO"
UNWRITTEN = "NotImplemented" + "Error"

BAD = {
    "file-length": ("scripts/a.py", "x = 1\n" * 501),
    "function-length": ("scripts/a.py", "def long():\n" + "    x = 1\n" * 50),
    "leftover: marker": ("tests/unit/a.py", f"x = 1  # {MARKER}: more\n"),
    "leftover: error class": ("quorumd/a.py", f"{DOC}raise {UNWRITTEN}\n"),
    "unexplained: type": ("quorumd/a.py", f"{DOC}x = 1  # type: ignore[assignment]\n"),
    "unexplained: lint": ("scripts/a.py", "x = 1  # noqa: E501, F401\n"),
    "unpacked: arguments": ("quorumd/a.py", f"{DOC}x = f(*(1, 2), 3)\n"),
    "unpacked: elements": ("scripts/a.py", "x = (*[1, 2], 3)\n"),
    "print": ("quorumd/runtime/a.py", f"{DOC}print(1)\n"),
    "sleep: asyncio": ("tests/unit/a.py", "import asyncio\nasync def f():\n    await asyncio.sleep(1)\n"),
    "sleep: from": ("tests/property/a.py", "from time import sleep\n"),
    "pure: import": ("quorumd/raft/a.py", f"{DOC}import random\n"),
    "pure: quotas": ("quorumd/quotas/a.py", f"{DOC}import time\n"),
    "pure: from": ("quorumd/node/a.py", f"{DOC}from os.path import join\n"),
    "pure: import inside a function": ("quorumd/log/a.py", f"{DOC}def _f():\n    import time\n"),
    "pure: call that differs between runs": (
        "quorumd/ids.py",
        f"{DOC}x = sorted([1], key=lambda y: id(y))\n",
    ),
    "docstring: module": ("quorumd/a.py", "x = 1\n"),
    "docstring: class": ("quorumd/a.py", f"{DOC}class Public:\n" + "    x = 1\n" * 10),
    "docstring: function": ("quorumd/a.py", f"{DOC}async def public():\n" + "    await x\n" * 10),
    "syntax": ("quorumd/a.py", f"{DOC}def (:\n"),
}

GOOD = {
    "file-length": ("scripts/a.py", "x = 1\n" * 500),
    "function-length": ("scripts/a.py", "def long():\n" + "    x = 1\n" * 49),
    "explained-type": ("quorumd/a.py", f"{DOC}x = 1  # type: ignore[misc]  # the stub lacks it\n"),
    "explained-lint": ("scripts/a.py", "x = 1  # noqa: E501 a table reads better wide\n"),
    "directive-in-a-string": ("scripts/a.py", 'x = "# noqa"\n'),
    "unpacked-generator": ("quorumd/a.py", f"{DOC}x = f(*(y for y in z), *w)\n"),
    "print": ("quorumd/cli/a.py", f"{DOC}print(1)\n"),
    "sleep": ("tests/shell/a.py", "import time\ntime.sleep(1)\n"),
    "sleep that only yields": (
        "tests/unit/a.py",
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n",
    ),
    "short without docstring": ("quorumd/a.py", f"{DOC}def public():\n" + "    x()\n" * 9),
    "world-outside": ("quorumd/runtime/a.py", f"{DOC}import os\n"),
    "relative-name": ("quorumd/raft/a.py", f"{DOC}from . import time\n"),
    "hash-method": ("quorumd/ids.py", f"{DOC}class _K:\n    def __hash__(self):\n        return hash(1)\n"),
    "private": ("quorumd/a.py", f"{DOC}def _helper():\n" + "    x()\n" * 10),
    "generated": ("quorumd/protocol/messages/a.py", "x = 1\n" * 600),
    "empty": ("quorumd/a.py", ""),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_sample_is_found_once(name: str) -> None:
    path, source = BAD[name]
    assert [finding.rule for finding in house_rules.check_source(path, source)] == [name.partition(":")[0]]


@pytest.mark.parametrize("name", GOOD)
def test_good_sample_has_no_findings(name: str) -> None:
    path, source = GOOD[name]
    assert house_rules.check_source(path, source) == []


def test_stray_file_at_the_top_or_in_tests_is_found(tmp_path: Path) -> None:
    for directory in ("quorumd", "docs", "tests/unit", "tests/misc", ".venv", "build", "x.egg-info"):
        (tmp_path / directory).mkdir(parents=True)
    for name in ("notes.txt", "CONTRIBUTING.md"):
        (tmp_path / name).write_text("")
    found = house_rules.check_layout(tmp_path)
    assert [finding.path for finding in found] == ["notes.txt", "tests/misc"]


@pytest.mark.parametrize(
    "page", ["docs/a.md", "tests/README.md", "Makefile", "config/a/b.properties", "tests/mutants/a.toml"]
)
def test_wording_of_pages_is_checked(tmp_path: Path, page: str) -> None:
    (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / page).write_text("# A leader.\n# So" + "mebody leads.\n")
    assert [(each.path, each.line, each.rule) for each in house_rules.check_pages(tmp_path)] == [
        (page, 2, "wording")
    ]


PACKAGES = sorted(
    directory.parent.relative_to(ROOT).as_posix()
    for directory in (ROOT / "quorumd").rglob("__init__.py")
    if "messages" not in directory.parts
)


@pytest.mark.parametrize("package", PACKAGES)
def test_language_of_every_package_is_checked(package: str) -> None:
    source = '"""What it as' + 'ks."""\ndef te' + 'll(x):\n    raise ValueError("no" + "no' + 'body")\n'
    found = [each.rule for each in house_rules.check_source(f"{package}/a.py", source)]
    assert sorted(found) == ["name", "opening", "wording", "wording"]


@pytest.mark.parametrize(
    "package", ["raft", "controller", "protocol", "log", "broker/api", "node/broker", "security"]
)
def test_pure_packages_are_checked(package: str) -> None:
    found = house_rules.check_source(f"quorumd/{package}/a.py", f"{DOC}import socket\n")
    assert [each.rule for each in found] == ["pure"]


def test_package_with_more_untyped_lines_than_allowed_is_found(tmp_path: Path) -> None:
    (tmp_path / "quorumd" / "log" / "files").mkdir(parents=True)
    (tmp_path / "quorumd" / "log" / "a.py").write_text(f"{DOC}from typing import Any\nx: Any = 1\n")
    (tmp_path / "quorumd" / "log" / "files" / "b.py").write_text(
        f'{DOC}# Any other: "Any"\ny: list[Any] = []\n'
    )
    over = house_rules.packages_over_their_ceiling
    assert list(over(tmp_path, {"log": 3})) == []
    assert [package for package, _ in over(tmp_path, {"log": 2})] == ["log"]
    assert [package for package, _ in over(tmp_path, {"raft": 3})] == ["log"]


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("In any form.\n\n    alpha   first\n    beta    second\n    rooms/  more", []),
        ("Shared rows and patterns.\n\n    al*, beta\n        both\n    rooms  more\n\nSee `rooms`.", []),
        ("In text: `alpha`, (.beta) and `rooms`.", []),
        ("No list, but `alpha` and `other`.", []),
        ("Other tables.\n\n    size   in bytes\n    alpha  a letter\n    name   a name", []),
        ("A module is missing.\n\n    alpha   first\n    rooms/  more", ["does not list beta"]),
        ("Missing in text: `alpha` and `rooms`.", ["does not list beta"]),
        (
            "A module is gone.\n\n    alpha   first\n    beta    second\n    rooms   more\n    gone    old",
            ["lists gone, which does not exist"],
        ),
        ("Gone in text: `alpha`, `beta`, `rooms`, `gone`.", ["lists gone, which does not exist"]),
        (
            "A package is a pattern without modules.\n\nalpha   first\nbeta    second\nrooms   more\nx_*     old",
            ["lists x_*, which does not exist"],
        ),
    ],
)
def test_module_lists_of_package_docstrings_are_complete(
    tmp_path: Path, docstring: str, expected: list[str]
) -> None:
    package = tmp_path / "quorumd" / "package"
    (package / "rooms").mkdir(parents=True)
    for name in ("__init__", "__main__", "alpha", "beta", "rooms/__init__"):
        (package / f"{name}.py").write_text(DOC)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "alpha.pyc").write_bytes(b"")
    (package / "__init__.py").write_text(f'"""{docstring}"""\n')
    found = [finding for finding in house_rules.check_tree(tmp_path) if finding.rule == "modules"]
    assert [finding.text.removeprefix("the docstring ") for finding in found] == expected
    assert all(finding.path == "quorumd/package/__init__.py" for finding in found)


def test_command_prints_path_and_line_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "quorumd").mkdir()
    (tmp_path / "quorumd" / "a.py").write_text(f"{DOC}\nprint(1)\n")
    assert house_rules.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.startswith("quorumd/a.py:3: print: ")
    (tmp_path / "quorumd" / "a.py").write_text(DOC)
    assert house_rules.main([str(tmp_path)]) == 0
