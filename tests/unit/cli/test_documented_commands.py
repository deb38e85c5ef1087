"""The commands, modules, options and make targets in the documentation exist."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from importlib.util import find_spec

import click
import pytest

from quorumd.cli.root import quorumd
from tests.support.documentation import PAGES, ROOT

LINE = re.compile(r"^ {4}(?:\$ )?(quorumd .*)$", re.MULTILINE)
IN_TEXT = re.compile(r"`(quorumd [^`]+)`")
TABLE_CELL = re.compile(r"^\| (`[a-z].*?`) \|", re.MULTILINE)
TARGET = re.compile(r"(?:^ {4}|`)make ([a-z][a-z-]*)", re.MULTILINE)
MAKE = re.compile(r"(?:^ {4}|`)make [a-z-]+((?: [A-Z_]+=(?:\"[^\"]*\"|[^\s`]+))+)", re.MULTILINE)
MODULE = re.compile(r"\bpython -m ([a-z_.]+)")
NO_COMMAND = re.compile(r"^quorumd(?: --?[a-z]|$)")


def documented() -> list[str]:
    """Commands as written, without comments."""
    found: dict[str, None] = {}
    for page in PAGES:
        text = (ROOT / page).read_text()
        for command in (*LINE.findall(text), *IN_TEXT.findall(text)):
            bare = command.replace("\\|", "|").split("  #")[0].strip()
            if not NO_COMMAND.match(bare):
                found[bare] = None
    return list(found)


def variants(command: str) -> list[list[str]]:
    """The words of a command; one list per subcommand of `a|b`."""
    words = shlex.split(re.sub(r"[\[\]]", " ", command.replace("--", " --")), posix=False)
    choices: list[list[str]] = [[]]
    for word in words[1:]:
        parts = word.split("|") if "|" in word and not word.startswith("-") else [word]
        choices = [[*chosen, part] for chosen in choices for part in parts]
    return choices


def resolve(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command, and the words after its name."""
    command: click.Command = quorumd
    rest = list(words)
    while isinstance(command, click.Group) and rest and rest[0] in command.commands:
        command = command.commands[rest.pop(0)]
    return command, rest


def test_documentation_has_commands() -> None:
    assert len(documented()) > 30


@pytest.mark.parametrize("command", documented())
def test_documented_commands_have_documented_options(command: str) -> None:
    for words in variants(command):
        found, rest = resolve(words)
        if isinstance(found, click.Group) and rest and re.fullmatch(r"[a-z][a-z-]*", rest[0]):
            assert found.invoke_without_command, f"there is no {rest[0]!r} in {found.name!r}"
        if isinstance(found, click.Group):
            continue
        known = {
            option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        wanted = {word.split("=")[0].split("|")[0] for word in rest if re.match(r"--[a-z]", word)}
        assert wanted <= known | {"--help"}, f"{sorted(wanted - known)} of {command!r}"


def test_readme_lists_every_command() -> None:
    cells = TABLE_CELL.findall((ROOT / "README.md").read_text())
    listed = {name for cell in cells for name in re.findall(r"`([a-z]+)", cell)}
    assert listed == set(quorumd.commands)


def test_documented_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = set(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[0].split())
    wanted = {target for page in PAGES for target in TARGET.findall((ROOT / page).read_text())}
    assert wanted
    assert wanted <= phony
    helped = set(re.findall(r'@echo "make ([a-z-]+)', makefile))
    assert wanted <= helped | {"setup", "check", "test", "run"}


def make_variables() -> list[tuple[str, str]]:
    """Every variable that is given to make, with its value."""
    given = [found for page in PAGES for found in MAKE.findall((ROOT / page).read_text())]
    words = dict.fromkeys(word for variables in given for word in shlex.split(variables))
    return [(name, value) for name, _, value in (word.partition("=") for word in words)]


def accepts(variable: str, options: str) -> bool:
    """Whether the program to which the Makefile passes the options of this variable has them."""
    program = re.search(rf"-m ([\w.]+).* \$\({variable}\)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert program is not None, variable
    main: click.Command = import_module(f"{program[1]}.__main__").main
    try:
        main.make_context(variable, shlex.split(options.removesuffix(" ...")))
    except click.UsageError:
        return False
    return True


@pytest.mark.parametrize(("variable", "value"), make_variables())
def test_documented_make_variables_are_accepted(variable: str, value: str) -> None:
    assert re.search(rf"^{variable} \?=", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert not value.startswith("--") or accepts(variable, value)


def test_unknown_options_are_found() -> None:
    assert accepts("STOCK", "--only verbs")
    assert not accepts("STOCK", "--only nouns")
    assert not accepts("BENCH", "--brief")
    assert len(make_variables()) > 10


def test_documented_modules_exist() -> None:
    modules = {name for page in PAGES for name in MODULE.findall((ROOT / page).read_text())}
    assert {name for name in modules if find_spec(name) is None} == set()
