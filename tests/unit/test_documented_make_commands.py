"""Each `make` command in the documentation names a target, variables of its recipe, and options that it takes."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

import click
import pytest

from tests.support.documentation import PAGES, ROOT, documented_steps

MAKEFILE = (ROOT / "Makefile").read_text()
_IN_TEXT = re.compile(r"`(make [a-z][^`]*)`")


class Documented(NamedTuple):
    page: str
    command: str


def documented() -> Iterator[Documented]:
    for page in PAGES:
        for command in _IN_TEXT.findall((ROOT / page).read_text()):
            yield Documented(page, " ".join(command.split()))
    for step in documented_steps():
        if step.command.startswith("make "):
            yield Documented(step.place.partition(":")[0], step.command)


def recipe_of(target: str) -> str:
    """The prerequisites and the recipe of a target; empty if there is none."""
    found = re.search(rf"^{re.escape(target)}:(.*\n(?:\t.*\n)*)", MAKEFILE, re.MULTILINE)
    return found[1] if found else ""


def command_of(target: str, variable: str) -> click.Command | None:
    """The command that gets a variable as its options; None if it is the value of an option."""
    found = re.search(rf"python -m (\S+)([^\n]*) \$\({variable}\)$", recipe_of(target), re.MULTILINE)
    if found is None or re.search(r" --\S+$", found[2]):
        return None
    command = importlib.import_module(f"{found[1]}.__main__").main
    assert isinstance(command, click.Command)
    return command


@pytest.mark.parametrize("each", sorted(set(documented())), ids=lambda each: f"{each.page}: {each.command}")
def test_documented_make_command_is_valid(each: Documented) -> None:
    _, target, *settings = shlex.split(each.command)
    assert recipe_of(target), f"{each.page}: the Makefile has no target {target}"
    for setting in settings:
        variable, _, value = setting.partition("=")
        assert f"\n{variable} ?=" in MAKEFILE, f"{each.page}: {variable} is no variable of the Makefile"
        if command := command_of(target, variable):
            command.make_context(target, shlex.split(value))


def test_options_of_commands_are_checked() -> None:
    stock = command_of("stock-tools", "STOCK")
    assert stock is not None
    with pytest.raises(click.UsageError):
        stock.make_context("stock-tools", ["--only", "nothing"])
