"""The command as a whole: help, errors, exit codes, and few imports for --help."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from quorumd import __version__
from quorumd.cli import main, root
from quorumd.cli.local_cluster import AddressInUse
from quorumd.errors import (
    ConfigError,
    CorruptLog,
    DiskFull,
    ExitCode,
    FlushFailed,
    InputIncomplete,
    JobFailed,
    QuorumdError,
    RequestFailed,
)

ROOT = Path(__file__).resolve().parents[3]
HEAVY = (
    "pydantic",
    "rich",
    "uvloop",
    "construct",
    "prometheus_client",
    "asyncio",
    "http.client",
    "multiprocessing",
    "quorumd.protocol",
    "quorumd.node",
)


def commands(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands below this one, including groups."""
    for name, inner in getattr(command, "commands", {}).items():
        yield (*path, name), inner
        yield from commands(inner, (*path, name))


ALL = dict(commands(root.quorumd))


@pytest.mark.parametrize("path", [(), *(path for path in ALL if isinstance(ALL[path], click.Group))])
def test_help_of_groups_has_whole_sentences(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(root.quorumd, [*path, "--help"]).output
    assert "..." not in shown.split("Commands:")[1]


def test_required_commands_exist() -> None:
    names = {" ".join(path) for path in ALL}
    required = (
        "format, start, cluster up, cluster status, cluster down, quorum describe, quorum alter, quorum add-voter, "
        "quorum remove-voter, configs get, configs set, configs delete, log dump, snapshot, simulate, bench"
    )
    assert set(required.split(", ")) <= names


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_help_has_an_example_that_is_a_command(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert root.run([*path, "--help"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^ +Examples?:$", text, re.MULTILINE)
    assert re.search(rf"^ +(?:[A-Z_]+=\S+ )?quorumd {' '.join(path)}\b", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 110
    assert not re.search(r"^ +--[a-z-]+ _", text, re.MULTILINE), "a value is named after a function"


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_that_talks_to_nodes_takes_the_same_timeout(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert root.run([*path, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    talks = "--bootstrap-server" in text.split("Options:")[1]
    assert ("--timeout DURATION" in text) == talks, text


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_files_named_in_examples_exist(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    root.run([*path, "--help"])
    for file in re.findall(r"config/\S+", capsys.readouterr().out):
        assert (ROOT / file).is_file(), file


def test_help_imports_no_slow_modules() -> None:
    code = (
        "import sys; from quorumd.cli.root import run; run(['--help']); "
        f"sys.exit(' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == "\n"
    assert "Exit codes:" in done.stdout


def test_command_imports_no_other_command() -> None:
    code = (
        "import sys; from quorumd.cli.root import COMMANDS, run; run(['start', '--help']); "
        "print(*(name for name, place in COMMANDS.places.items() if place.partition(':')[0] in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["format", "start"], "start may format"


def test_help_lists_every_exit_code_once_and_no_command_has_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert root.run(["--help"]) == 0
    _, _, listed = capsys.readouterr().out.partition("Exit codes:\n")
    assert [line.strip() for line in listed.splitlines()] == [
        f"{code:<4} {code.meaning}" for code in ExitCode
    ]
    assert len({code.meaning for code in ExitCode}) == len(ExitCode)
    for path in ALL:
        root.run([*path, "--help"])
        assert "Exit codes:" not in capsys.readouterr().out


def test_documentation_has_same_exit_codes() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    listed = re.findall(r"^\| (\d+) \| (.+) \|$", text, re.MULTILINE)
    assert listed == [(str(int(code)), code.meaning) for code in ExitCode]


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert root.run(["--version"]) == 0
    assert capsys.readouterr().out == f"quorumd {__version__} (interpreted)\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["strat"], "No such command 'strat'"),
        (["start"], "Missing option '--config'"),
        (["start", "--confg", "x"], "No such option"),
        (["quorum", "describe", "--bootstrap-server", "localhost"], "'localhost' is not host:port"),
        (["quorum", "describe", "--bootstrap-server", "h:0"], "'h:0' is not host:port"),
        (["bench", "--bootstrap-server", "h:1", "--in-flight", "1,0"], "'1,0' is not a list"),
        (
            ["configs", "set", "--bootstrap-server", "h:1", "--type", "group", "--name", "g", "x"],
            "not KEY=VALUE",
        ),
        (
            ["cluster", "status", "--dir", "/nonexistent/directory"],
            "quorumd cluster up --dir /nonexistent/directory",
        ),
        (["start", "--config", "/nonexistent/file"], "/nonexistent/file: cannot be read"),
        (["log", "dump", "/nonexistent.log"], "no such file"),
    ],
)
def test_usage_error_is_one_line_and_exit_code_2(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert root.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert error in err


def test_each_problem_of_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.properties").write_text("node.id=x\nnode.idd=1\n")
    assert root.run(["start", "--config", str(tmp_path / "bad.properties")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 2
    assert all(line.startswith("error: ") for line in lines)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RequestFailed("x"), 1),
        (QuorumdError("x"), 1),
        (ConfigError("x"), 2),
        (CorruptLog("x"), 3),
        (DiskFull("x"), 3),
        (FlushFailed("x"), 4),
        (AddressInUse("x"), 5),
        (JobFailed("x"), 7),
        (InputIncomplete("x"), 8),
        (PermissionError(13, "Permission denied", "/a/file"), 1),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 0),
    ],
)
def test_each_error_has_its_exit_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(root.quorumd, "main", fail)
    monkeypatch.setattr(root, "silence_stdout", lambda: None)
    assert root.run([]) == code
    assert code == 0 or capsys.readouterr().err.startswith("error: ")


def test_unexpected_exception_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr(root.quorumd, "main", fail)
    with pytest.raises(AssertionError, match="a bug"):
        root.run([])


def test_closed_stdout_is_not_an_error() -> None:
    command = f"{sys.executable} -m quorumd config docs | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith("node.id")


@pytest.mark.parametrize(
    ("handler", "while_importing"),
    [(signal.default_int_handler, signal.SIG_DFL), (signal.SIG_IGN, signal.SIG_IGN)],
)
def test_interrupted_imports_leave_no_traceback(
    monkeypatch: pytest.MonkeyPatch, handler: object, while_importing: object
) -> None:
    found = []

    class Root(ModuleType):
        @property
        def run(self) -> Callable[[Sequence[str]], int]:
            found.append(signal.getsignal(signal.SIGINT))
            return lambda arguments: found.append(signal.getsignal(signal.SIGINT)) or 0

    monkeypatch.setitem(sys.modules, "quorumd.cli.root", Root("root"))
    before = signal.signal(signal.SIGINT, handler)  # type: ignore[arg-type]  # either kind of handler
    try:
        with pytest.raises(SystemExit):
            main()
    finally:
        signal.signal(signal.SIGINT, before)
    assert found == [while_importing, handler]
