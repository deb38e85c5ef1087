"""The form of commit subjects: imperative with an object, at most 72 characters, no full stop."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

MAX_SUBJECT = 72
FIRST = "^Rename to Kafka's, Raft's and Python's vocabulary"
"""The subject of the commit since which subjects are checked."""

IMPERATIVES = {
    "bring",
    "embed",
    "exceed",
    "feed",
    "focus",
    "need",
    "ping",
    "proceed",
    "ring",
    "seed",
    "shed",
    "speed",
    "spring",
    "string",
    "swing",
}
"""Imperatives that end like another form of a verb."""


def problems_of(subject: str) -> list[str]:
    """Return the problems of a commit subject, one text each."""
    found = []
    if len(subject) > MAX_SUBJECT:
        found.append(f"{len(subject)} characters, at most {MAX_SUBJECT}")
    if subject.endswith("."):
        found.append("ends with a full stop")
    if len(subject.split()) == 1:
        found.append("does not name what is changed")
    first = subject.split()[0] if subject.split() else ""
    word = first.lower().rstrip(":,")
    is_other_form = word.endswith(("ed", "ing", "s")) and not word.endswith("ss")
    if not first or (is_other_form and word not in IMPERATIVES):
        found.append(f"begins with {first!r}, not with an imperative")
    return found


def badly_named_commits(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (commit, problem) for commits since FIRST; nothing without git or its history."""
    first = _git(root, "log", "-1", "--format=%H", f"--grep={FIRST}")
    if not first:
        return
    for line in _git(root, "log", "--no-merges", "--format=%h %s", f"{first}..HEAD").splitlines():
        commit, _, subject = line.partition(" ")
        for problem in problems_of(subject):
            yield commit, f"{subject!r} {problem}"


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ("git", "-C", str(root), *arguments), capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
