"""The examples in README.md and docs/, which are indented by four spaces."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in ROOT.glob("docs/*.md")))
_BLOCK = re.compile(r"(?<=\n\n)((?: {4}.*\n|\n(?= {4}))+)")
_PROPERTY = re.compile(r"[a-z][a-zA-Z0-9.]*=\S*")


def examples(page: str) -> list[str]:
    """The blocks of one page."""
    return [dedent(block) for block in _BLOCK.findall((ROOT / page).read_text())]


def python_examples(page: str) -> list[str]:
    """The blocks in Python."""
    return [block for block in examples(page) if block.startswith("from ")]


def properties_examples(page: str) -> list[str]:
    """The blocks of properties without references."""
    return [
        block
        for block in examples(page)
        if "${" not in block and all(map(_PROPERTY.fullmatch, block.splitlines()))
    ]
