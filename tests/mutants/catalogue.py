"""The mutants: bugs as data, each a small patch to the code that ships. They are in the `.toml` files beside this.

    [[mutant]]
    name = "votes-twice-in-an-epoch"
    breaks = "what does not hold any more, in a sentence"
    source = "where the rule that it breaks is from, or where the bug was met"
    [[mutant.edit]]
    file = "raft/election.py"        under quorumd/
    find = '''exact text, there once'''
    replace = '''what stands there instead'''

Nothing here imports quorumd: whoever plants a mutant must do so before that.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PACKAGE = FOLDER.parent.parent / "quorumd"


class DoesNotApply(Exception):
    """The code has moved away from under a mutant: its patch must be written anew."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement in one file; `file` is relative to the package."""

    file: str
    find: str
    replace: str

    @property
    def module(self) -> str:
        return "quorumd." + self.file.removesuffix(".py").replace("/", ".")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug. `profile` names the simulator's profile that makes what it needs frequent, "" for any options."""

    name: str
    breaks: str
    source: str
    edits: tuple[Edit, ...]
    profile: str = ""

    @property
    def modules(self) -> dict[str, Path]:
        """The modules that it changes, with their files."""
        return {edit.module: PACKAGE / edit.file for edit in self.edits}

    def patched(self, module: str, source: str) -> str:
        """The source of a module with this bug in it. Raises DoesNotApply."""
        for edit in self.edits:
            if edit.module != module:
                continue
            found = source.count(edit.find)
            if found != 1:
                raise DoesNotApply(
                    f"mutant {self.name}: its text to find is {found} times in quorumd/{edit.file}, and must be "
                    f"there once:\n{edit.find}"
                )
            source = source.replace(edit.find, edit.replace)
        return source


def load_mutants() -> list[Mutant]:
    """All mutants, in the order of files and of their place in them."""
    mutants = []
    for path in sorted(FOLDER.glob("*.toml")):
        with path.open("rb") as file:
            entries = tomllib.load(file)["mutant"]
        for entry in entries:
            edits = tuple(Edit(**edit) for edit in entry.pop("edit"))
            mutants.append(Mutant(edits=edits, **entry))
    return mutants
