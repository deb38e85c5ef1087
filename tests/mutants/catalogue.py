"""The mutants: bugs as data, each a small change of the code that ships. They are in the `.toml` files beside this.

    [[mutant]]
    name = "votes-twice-in-an-epoch"
    breaks = "the rule that no longer holds, in one sentence"
    source = "the paper, KIP or defect that the rule comes from"
    profile = "elections"                   options of the simulator that make it likely; may be left out
    [[mutant.edit]]
    in = "quorumd.raft.election.refusal"    module, class or function
    replace = "request.last.is_at_least(replica.end)"
    with = "True"                           empty to remove statements

`replace` is an expression or statements, compared as a syntax tree (see `code_edit`). It must occur once in `in`;
otherwise `occurrence = 2` names the second one.

This module imports nothing of quorumd: a mutant must be planted before that.
"""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.code_edit import NotFound, lines_before, replace_code

DIRECTORY = Path(__file__).resolve().parent
PACKAGE = DIRECTORY.parent.parent / "quorumd"


class DoesNotApply(Exception):
    """The code of a mutant has changed or moved, so that its edit must be rewritten."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement in `place`, the dotted name of a module, class or function."""

    place: str
    old: str
    new: str
    occurrence: int | None = None

    @property
    def module(self) -> str:
        """The module that `place` is in. Raises DoesNotApply if there is none."""
        name = self.place
        while name:
            if _path(name).is_file():
                return name
            name = name.rpartition(".")[0]
        raise DoesNotApply(f"{self.place} is in no module of quorumd")

    def apply(self, tree: ast.Module) -> None:
        """Change the tree of its module. Raises NotFound."""
        replace_code(tree, self._path, self.old, self.new, self.occurrence)

    def lines_before(self, tree: ast.Module) -> tuple[int, int] | None:
        """The lines of its module of which one must run before it makes a difference, if that is known."""
        return lines_before(tree, self._path, self.old, self.new, self.occurrence)

    @property
    def _path(self) -> list[str]:
        return [part for part in self.place.removeprefix(self.module).split(".") if part]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug. `profile` names the simulator's profile that makes it likely, "" for any options."""

    name: str
    breaks: str
    source: str
    edits: tuple[Edit, ...]
    profile: str = ""

    @property
    def modules(self) -> dict[str, Path]:
        """The modules that it changes, with their files."""
        return {edit.module: _path(edit.module) for edit in self.edits}

    def planted(self, module: str, source: str) -> ast.Module:
        """The syntax tree of a module with this bug in it. Raises DoesNotApply."""
        tree = ast.parse(source)
        for edit in self.edits:
            if edit.module != module:
                continue
            try:
                edit.apply(tree)
            except NotFound as cause:
                raise DoesNotApply(f"mutant {self.name}: {edit.place}: {cause}:\n{edit.old}") from cause
        return tree


def load_mutants() -> list[Mutant]:
    """All mutants, in the order of files and of their place in them."""
    mutants = []
    for path in sorted(DIRECTORY.glob("*.toml")):
        with path.open("rb") as file:
            entries = tomllib.load(file)["mutant"]
        for entry in entries:
            edits = tuple(
                Edit(edit["in"], edit["replace"], edit["with"], edit.get("occurrence"))
                for edit in entry.pop("edit")
            )
            mutants.append(Mutant(edits=edits, **entry))
    return mutants


def _path(module: str) -> Path:
    return PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")
