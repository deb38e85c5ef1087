"""The mutants: bugs as data, each a small change of the code that ships, in the `.toml` files of this directory.

    [[mutant]]
    name = "votes-twice-in-an-epoch"
    breaks = "the rule that no longer holds, in one sentence"
    source = "the paper, KIP or defect from which the rule comes"
    profile = "elections"                   the simulator's profile that makes violations likely; optional
    [[mutant.edit]]
    in = "quorumd.raft.election.refusal"    module, class or function
    replace = "request.last.is_at_least(replica.end)"
    with = "True"                           empty to remove statements

`replace` is an expression or statements, which are compared as a syntax tree (see `code_edit`). It must occur once in
`in`; otherwise `occurrence = 2` selects the second occurrence.

This module does not import quorumd, since a mutant must be planted before the import.
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
    """A replacement in `place`, the dotted name of a module, class or function."""

    place: str
    old: str
    new: str
    occurrence: int | None = None

    @property
    def module(self) -> str:
        """The module of `place`. Raises DoesNotApply if there is none."""
        name = self.place
        while name:
            if _path(name).is_file():
                return name
            name = name.rpartition(".")[0]
        raise DoesNotApply(f"{self.place} is in no module of quorumd")

    def apply(self, tree: ast.Module) -> None:
        """Apply the replacement to the tree of its module. Raises NotFound."""
        replace_code(tree, self._path, self.old, self.new, self.occurrence)

    def lines_before(self, tree: ast.Module) -> tuple[int, int] | None:
        """Return a range of lines of the module, of which one runs before the replacement has an effect, if known."""
        return lines_before(tree, self._path, self.old, self.new, self.occurrence)

    @property
    def _path(self) -> list[str]:
        return [part for part in self.place.removeprefix(self.module).split(".") if part]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug."""

    name: str
    breaks: str
    source: str
    edits: tuple[Edit, ...]
    profile: str = ""
    """The simulator's profile that makes violations likely, or "" if any options do."""

    @property
    def modules(self) -> dict[str, Path]:
        """The files of the modules that the mutant changes, by module."""
        return {edit.module: _path(edit.module) for edit in self.edits}

    def planted(self, module: str, source: str) -> ast.Module:
        """Return the syntax tree of a module with the bug. Raises DoesNotApply."""
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
    """Return all mutants, in the order of the files and of their positions in them."""
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
