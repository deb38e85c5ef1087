"""Java's properties format, as in Kafka's files; each property has the number of the line on which it starts.

`#` and `!` start a comment line; `=`, `:` or white space ends a key; a backslash at the end of a line continues it
on the next one, without that line's leading white space; `\\t \\n \\r \\f \\uXXXX` are escapes, and any other
escaped character stands for itself. There are two differences from Java: the text is UTF-8, and white space at the
end of a value is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

WHITE_SPACE = " \t\f"
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """One `key=value`; `line` counts from 1.

    `fault` is the reason why the property cannot be parsed, "" if it can; it never contains the value. `origin` is
    the environment variable that it comes from, "" for the file. `reference` is the value before its references were
    resolved, "" if it has none.
    """

    key: str
    value: str
    line: int
    fault: str = ""
    origin: str = ""
    reference: str = ""


def parse_properties(text: str) -> list[Property]:
    """Parse all properties in order, including duplicates."""
    return [_parse_property(logical_line, number) for number, logical_line in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    pending = ""
    start = 0
    # Not splitlines(), which also splits at characters that Java treats as ordinary.
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        line = raw.lstrip(WHITE_SPACE)
        if not start:
            if not line or line[0] in "#!":
                continue
            start = number
        trailing_backslashes = len(line) - len(line.rstrip("\\"))
        if trailing_backslashes % 2:
            pending += line[:-1]
            continue
        yield start, pending + line
        pending, start = "", 0
    if start:
        yield start, pending


def _parse_property(logical_line: str, number: int) -> Property:
    end = 0
    while end < len(logical_line) and logical_line[end] not in "=:" + WHITE_SPACE:
        end += 2 if logical_line[end] == "\\" else 1
    rest = logical_line[end:].lstrip(WHITE_SPACE)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(WHITE_SPACE)
    raw_key = logical_line[:end]
    try:
        return Property(_unescape(raw_key), _unescape(rest).rstrip(WHITE_SPACE), number)
    except ValueError as error:
        return Property(raw_key, rest, number, str(error))


def _unescape(raw: str) -> str:
    if "\\" not in raw:
        return raw
    characters = []
    position = 0
    while position < len(raw):
        character = raw[position]
        position += 1
        if character == "\\":
            escaped = raw[position : position + 1]
            position += 1
            if escaped == "u":
                digits = raw[position : position + 4]
                if len(digits) < 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                    raise ValueError("four hexadecimal digits must follow \\u")
                character = chr(int(digits, 16))
                position += 4
            else:
                character = ESCAPES.get(escaped, escaped)
        characters.append(character)
    return _joined_surrogates("".join(characters))


def _joined_surrogates(text: str) -> str:
    """Join surrogate pairs: Java writes a character above U+FFFF as two escapes."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ValueError("\\ud800 to \\udfff must occur in surrogate pairs") from None
