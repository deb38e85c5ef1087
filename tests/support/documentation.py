"""The examples in the documentation, which are indented or fenced blocks, and the commands in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    *("README.md", *sorted(f"docs/{path.name}" for path in ROOT.glob("docs/*.md"))),
    *("CONTRIBUTING.md", "tests/README.md"),
)
_BLOCK = re.compile(
    r"^```(?P<language>\w*)\n(?P<fenced>(?:.*\n)*?)```$|(?<=\n\n)(?P<indented>(?: {4}.*\n|\n(?= {4}))+)",
    re.MULTILINE,
)
_PROPERTY = re.compile(r"[a-z][a-zA-Z0-9.]*=\S*")
_PROGRAM = r"quorumd|make|pip|docker|systemctl|cat|kafka-[a-z-]+|\.venv/bin/python"
_COMMAND = re.compile(rf"(?P<prompt>\$ )?(?P<words>(?:{_PROGRAM}) .*?)(?: +#.*)?")


class Block(NamedTuple):
    """One example."""

    page: str
    line: int
    """Number of its first line in the page, from 1."""
    language: str
    """The language that its fence names, "" for an indented block."""
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


class Step(NamedTuple):
    """A command in a block, with the lines of output that follow it."""

    place: str
    """Page and line, for messages."""
    command: str
    has_prompt: bool
    """Whether it follows `$ `, so that all output is shown."""
    output: str


def blocks(page: str) -> list[Block]:
    """Return all examples of one page."""
    text = (ROOT / page).read_text()
    return [
        Block(
            page,
            text.count("\n", 0, match.start("fenced" if match["indented"] is None else "indented")) + 1,
            match["language"] or "",
            match["fenced"] if match["indented"] is None else dedent(match["indented"]),
        )
        for match in _BLOCK.finditer(text)
    ]


def steps(block: Block) -> Iterator[Step]:
    """Yield the commands of a block in order. Lines before the first command are ignored."""
    found: Step | None = None
    for number, line in enumerate(block.text.splitlines(), block.line):
        if command := _COMMAND.fullmatch(line):
            if found is not None:
                yield _finished(found)
            has_prompt = command["prompt"] is not None
            found = Step(f"{block.page}:{number}", command["words"], has_prompt, "")
        elif found is not None and found.command.endswith("\\"):
            found = found._replace(command=f"{found.command[:-1]}{_without_comment(line)}")
        elif found is not None:
            found = found._replace(output=f"{found.output}{line}\n")
    if found is not None:
        yield _finished(found)


def _finished(step: Step) -> Step:
    """Remove the empty lines at the end of a step's output."""
    return step._replace(output=f"{step.output.rstrip()}\n" if step.output.strip() else "")


def _without_comment(line: str) -> str:
    return re.sub(" +#.*", "", line).strip()


def documented_steps() -> list[Step]:
    """Return the commands of all pages in order."""
    return [step for page in PAGES for block in blocks(page) for step in steps(block)]


def examples(page: str) -> list[str]:
    """Return the blocks of one page that name no language."""
    return [block.text for block in blocks(page) if not block.language]


def python_examples(page: str) -> list[str]:
    """Return the Python examples among the blocks that name no language."""
    return [block for block in examples(page) if block.startswith("from ")]


def is_properties(text: str) -> bool:
    """Whether every line sets a property."""
    return all(map(_PROPERTY.fullmatch, text.splitlines()))


def properties_examples(page: str) -> list[str]:
    """Return the examples that are properties files."""
    return [block for block in examples(page) if is_properties(block)]
