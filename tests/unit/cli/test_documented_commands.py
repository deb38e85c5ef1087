"""The commands, options and make targets in the documentation exist."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from quorumd.cli.root import quorumd
from tests.support.documentation import PAGES, ROOT

LINE = re.compile(r"^ {4}(?:\$ )?(quorumd .*)$", re.MULTILINE)
IN_TEXT = re.compile(r"`(quorumd [^`]+)`")
TABLE_CELL = re.compile(r"^\| (`[a-z].*?`) \|", re.MULTILINE)
TARGET = re.compile(r"(?:^ {4}|`)make ([a-z][a-z-]*)", re.MULTILINE)
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
