"""Errors that advise to format a directory again say that the vote is lost with it, and how to restore it."""

from __future__ import annotations

import re
from pathlib import Path

from quorumd.cli.root import quorumd as command
from quorumd.log.remedies import REFORMAT_REMEDY

SOURCES = Path(__file__).resolve().parents[3] / "quorumd"


def test_advice_names_the_vote_and_existing_commands() -> None:
    assert "rejoins as an observer" in REFORMAT_REMEDY
    named = re.findall(r"`quorumd quorum ([a-z-]+)`", REFORMAT_REMEDY)
    assert named == ["remove-voter", "add-voter"]
    assert set(named) <= command.commands["quorum"].commands.keys()  # type: ignore[attr-defined]  # a group


def test_every_error_uses_the_common_advice() -> None:
    own_words = re.compile(
        r"format(ted)?\s+(it|this|the (log )?directory|another (log )?directory)\b(?![^\n]*(?:without a|no) vote)"
    )
    found = [
        str(path)
        for path in SOURCES.rglob("*.py")
        if path.name != "remedies.py" and own_words.search(re.sub(r'"\s*f?"', "", _messages(path)))
    ]
    assert found == []


def _messages(path: Path) -> str:
    """The string literals of a file, without docstrings."""
    text = re.sub(r'""".*?"""', "", path.read_text(), flags=re.DOTALL)
    return "\n".join(re.findall(r'"(?:[^"\\\n]|\\.)*"', text))
