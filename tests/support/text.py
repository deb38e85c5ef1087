"""Facts in the text of errors, logs and command output, without the sentences around them."""

from __future__ import annotations


def shows(text: str, *facts: object) -> bool:
    """Whether `text` contains all of these facts in this order."""
    position = 0
    for fact in map(str, facts):
        found = text.find(fact, position)
        if found < 0:
            return False
        position = found + len(fact)
    return True


def cells(table: str) -> list[list[str]]:
    """Return the words of every line."""
    return [line.split() for line in table.splitlines()]


class CountedName(str):
    """Counts comparisons of names, since a request with many names must not compare each with all others."""

    comparisons = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str.__eq__(self, other)
