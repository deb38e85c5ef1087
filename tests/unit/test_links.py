"""Links in Markdown files resolve: the file is there, and so is the heading that a fragment names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("tests/*.md")]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
OUTSIDE = ("http://", "https://", "mailto:")


def anchors(page: Path) -> set[str]:
    """Fragments of the headings of a page, as GitHub derives them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(page.read_text())
    }


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in LINK.findall(page.read_text()):
        if link.startswith(OUTSIDE):
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (fragment and fragment not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    assert broken_links(page) == []


def test_missing_file_and_a_missing_heading_are_broken_links(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading, with `code`\n[a](#a-heading-with-code) [b](nowhere.md) [c](#nowhere) [d](https://x.org)\n"
    )
    assert broken_links(page) == ["nowhere.md", "#nowhere"]


def test_architecture_names_code_that_exists() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    sources = [path.read_text() for path in (ROOT / "quorumd").rglob("*.py")]
    defined = set(re.findall(r"^ *(?:async )?(?:def|class) (\w+)", "\n".join(sources), re.MULTILINE))
    named = re.findall(r"`(\w+)\(\)`|`([A-Z][a-z]+[A-Z]\w+)[`(]", page)
    assert {function or class_ for function, class_ in named} - defined == set()
    files = set(re.findall(r"`((?:\w+/)*\w+\.py)`", page))
    assert [
        file for file in files if not any((base / file).exists() for base in (ROOT, ROOT / "quorumd"))
    ] == []
